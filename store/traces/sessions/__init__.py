"""Sessions, named by clients or found by which call continues which, with their sums and agents."""
