"""The control database: endpoints, keys, people, sessions and the activity log."""
