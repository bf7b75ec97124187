"""The spool is one append-only file per exchange, the seam between proxy and recorder."""
