"""Removing calls and texts by rule or order, and verifying that what is stored agrees."""
