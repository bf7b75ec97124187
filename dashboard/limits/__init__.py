"""The limits of subscriptions: how much of each window is left."""
