"""The page on tools: what they were used for and what they cost, also as JSON."""
