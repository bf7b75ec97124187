"""The trace database of one organisation: its schema, and everything that reads or writes it."""
