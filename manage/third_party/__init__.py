"""Third-party extensions: found, loaded in their own process, and notified of stored calls."""
