"""The page of one call: each field, the line items of its cost, and its bodies."""
