"""Pages of calls: the list of calls, and one call with its tabs."""
