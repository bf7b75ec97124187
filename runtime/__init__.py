"""Support for processes that does not need a database: settings, clock, locks, logging."""
