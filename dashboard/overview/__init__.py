"""The overview: what a period cost, with charts."""
