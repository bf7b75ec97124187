"""The page of the search over what was said, and its data for programs."""
