"""Calls: one row each, with line items, judgements and the rate limits that upstream stated."""
