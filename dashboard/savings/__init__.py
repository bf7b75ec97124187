"""Pages of what could have been saved: in a period, and in one session."""
