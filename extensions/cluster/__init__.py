"""The parts of a service of several nodes: its log, directory and limits on a Redis server."""
