"""Handing stored calls on, in the order in which they were stored: how far each receiver has come."""
