"""The limits of subscriptions: the unused part of each window."""
