"""Content blocks of messages as a page shows them: ``reading.py`` begins, a module for each family of
kinds does the rest."""
