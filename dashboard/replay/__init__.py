"""Sending a call again: programs that use an SDK, and a page that edits a request and sends it."""
