"""The transcripts that Claude Code keeps of its sessions: files of JSON lines, read line by line."""
