"""Conversations: prompts and their contents, which call continues which, cache breaks. All pure
functions."""
