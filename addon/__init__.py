"""The wire: a mitmproxy addon that forwards, limits and spools. It parses and prices nothing.

``docs/internals/addon.md`` has the way of a request, what bounds what, and what a worker shares with others.
"""
