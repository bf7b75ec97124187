"""Recorded texts as safe HTML: Markdown and highlighted code."""
