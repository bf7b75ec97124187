"""Benchmarks: what the proxy costs compared with bare mitmdump, and how late it makes live streams."""
