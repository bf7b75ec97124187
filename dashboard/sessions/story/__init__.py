"""A session told as a story: its prompts, what was done for each, and what that cost. Pure functions."""
