"""Claude Code as a client: its variables and settings files, for ``taximeter run`` and the doctor."""
