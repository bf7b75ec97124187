"""The page of one call: every field, its cost line by line, its bodies as people read them."""
