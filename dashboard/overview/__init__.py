"""The overview: the cost of a period by step and group, which home page and ``/overview.json`` show."""
