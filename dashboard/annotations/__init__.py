"""Labels and notes of sessions and calls: the addresses that their forms are sent to."""
