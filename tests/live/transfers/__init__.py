"""Transfers between a client and the upstream, compared byte by byte at both ends and in the spool.

The proxy is a process of its own without a recorder, so that spool files stay until a test reads them.
"""
