"""Spool files in, rows out: decode, read usage, price, store, unlink."""
