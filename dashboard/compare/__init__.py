"""The comparison of two calls: what they sent, what came back, and what each cost."""
