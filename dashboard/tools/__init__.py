"""The page about tools, their uses and their costs, also as JSON."""
