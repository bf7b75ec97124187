"""The management API: its operations, their models, and the routes that serve them."""
