"""Tokens and cost of calls, from their requests and responses: pure functions without I/O."""
