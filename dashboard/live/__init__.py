"""Pages that follow: calls in flight, and events for pages when something was recorded."""
