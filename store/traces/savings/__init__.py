"""Findings of what a session could have saved, stored by day."""
