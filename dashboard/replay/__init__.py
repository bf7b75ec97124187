"""Sending a call again: lines for SDKs, and a page that edits a request and sends it."""
