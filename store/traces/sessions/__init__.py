"""Sessions: named by clients or found by what continues what; their sums, and those of their agents."""
