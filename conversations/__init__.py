"""Conversations: prompts, which call continues which, and cache breaks. Pure functions."""
