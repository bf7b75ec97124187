"""Pages about possible savings: in a period, and in one session."""
