"""Pages of what fills the prompt of a call and of a session."""
