"""The control database: endpoints, keys, users, sign-in sessions and the activity log."""
