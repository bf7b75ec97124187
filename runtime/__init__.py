"""Parts that every process needs and that use no database: settings, clock, locks, logging."""
