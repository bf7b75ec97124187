"""Conversations: prompts, what fills them, which call continues which, cache breaks. All pure."""
