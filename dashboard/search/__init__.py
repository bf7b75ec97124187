"""The page that searches the texts of calls, and its results as JSON."""
