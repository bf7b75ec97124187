"""Mail: how it is sent, and what is written."""
