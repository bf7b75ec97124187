"""Datasette, one for each organisation, and what keeps it within bounds."""
