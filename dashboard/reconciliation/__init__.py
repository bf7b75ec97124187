"""The page of the last reconciliation."""
