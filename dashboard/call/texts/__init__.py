"""Texts of traces as markup that is safe to show: Markdown, code and differences."""
