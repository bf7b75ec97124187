"""Forwarding of stored calls to receivers, and the position that each receiver has reached."""
