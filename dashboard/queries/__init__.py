"""Query processes: Datasette outside of the web process, and the proxy in front of it."""
