"""The settings pages: endpoints, keys and members."""
