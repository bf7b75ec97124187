"""Pages about the contents of prompts, of a call and of a session."""
