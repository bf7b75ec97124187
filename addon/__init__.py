"""The wire: a mitmproxy addon that forwards, limits and spools. It parses and prices nothing."""
