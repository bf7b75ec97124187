"""The index of what was said in the calls of one organisation: writing, removing and searching it."""
