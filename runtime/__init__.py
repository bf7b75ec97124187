"""The runtime is what a process needs and a database does not: settings, clock, locks, logging."""
