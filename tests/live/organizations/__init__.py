"""Several organisations on one service."""
