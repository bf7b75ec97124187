"""Heads of spooled requests, of which a test names the fields that it is about."""

from typing import Any

from store.spool.format import RequestHead


def make_head(entry_id: str = "0001", **changes: Any) -> RequestHead:
    """Return the head of a request of two bytes, with these fields in the place of the usual ones."""
    usual: dict[str, Any] = {
        "created_at": "2026-06-01T10:11:12.131Z",
        "organization_id": "org",
        "proxy_endpoint_id": "endpoint",
        "slug": "default",
        "metadata_only": False,
        "request_bytes": 2,
        "request_body": "whole",
    }
    return RequestHead(entry_id=entry_id, **(usual | changes))
