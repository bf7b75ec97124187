"""The wire: a mitmproxy addon that forwards, limits and spools. It parses and prices nothing.

``docs/internals/addon.md`` describes the path of a request, the limits, and the state that workers
share."""
