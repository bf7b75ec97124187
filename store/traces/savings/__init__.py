"""Findings about possible savings of sessions, stored by day."""
