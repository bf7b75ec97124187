"""The page of credentials that were found in calls."""
