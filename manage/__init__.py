"""People: the command line, the supervisor and the web process."""
