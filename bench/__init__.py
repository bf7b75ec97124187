"""Benchmarks: what the proxy costs beside bare mitmdump, and what a live stream feels of it."""
