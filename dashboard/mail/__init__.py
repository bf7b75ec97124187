"""Mail: its texts, and sending it."""
