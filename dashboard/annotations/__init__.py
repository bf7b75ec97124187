"""Labels and notes of sessions and calls: what their forms send."""
