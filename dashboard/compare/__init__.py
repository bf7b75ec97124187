"""The page that compares two calls: their requests, their responses, and their costs."""
