"""Live pages: calls in flight, and events for open pages after calls were recorded."""
