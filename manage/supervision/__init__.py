"""``taximeter up``: the processes of the service, started, watched and stopped together."""
