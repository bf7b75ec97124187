"""Management: the command line, the management API, the supervisor and the web process."""
