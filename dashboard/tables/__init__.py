"""Datasette, one instance for each organisation, and its limits."""
