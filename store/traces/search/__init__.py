"""The search index of the texts in the calls of one organisation: writing, removing and searching."""
