"""The story of a session: its prompts, what was done for each, and the costs. Pure functions."""
