"""The trace browser: Datasette, with one instance for each organisation, its limits and our changes."""
