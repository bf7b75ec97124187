"""Pages of calls: the list of them, and one call with its tabs."""
