"""The web pages: sign-in, home, settings and the trace browser."""
