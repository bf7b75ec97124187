"""The recorder turns spool files into rows: it decodes, reads usage, prices, stores and unlinks."""
