"""The status line that Claude Code shows below a session."""
