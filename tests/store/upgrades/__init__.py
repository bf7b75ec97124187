"""Databases as earlier versions wrote them, as SQL text, and the calls that are in them."""
