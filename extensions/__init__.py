"""The optional parts of the program: each folder is one part, with its tests. No room imports them."""
