"""The command line: one module per noun, and what all commands share."""
