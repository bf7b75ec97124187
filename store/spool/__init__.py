"""The spool: one append-only file per exchange, written by the proxy and read by the recorder."""
