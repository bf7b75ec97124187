"""Calls: one row each, with line items, judgements and what upstream said of rate limits."""
