"""Backups of a data directory: made while the service runs, and restored elsewhere."""
