"""Removal of calls and texts by rule or order, and verification of what is stored."""
