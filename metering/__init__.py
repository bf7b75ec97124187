"""Tokens and cost of calls, computed from their requests and responses: pure functions without I/O."""
