"""``taximeter doctor``: what is looked at, and how findings are told."""
