"""Query processes: Datasette outside of the web process, and the relay to it."""
