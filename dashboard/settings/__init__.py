"""Endpoints, keys and members, as forms."""
