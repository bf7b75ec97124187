"""The page of one call: every field, the line items of its cost, and its bodies."""
