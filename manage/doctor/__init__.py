"""``taximeter doctor``: the checks, and how their findings are described."""
