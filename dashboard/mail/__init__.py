"""Mail: its texts, and how it is sent."""
