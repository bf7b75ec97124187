"""Pages of sessions: the list, and one session with its agents and turns."""
