"""Fetching upstream's usage and cost reports, for ``taximeter reconcile``."""
