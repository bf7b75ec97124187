"""Datasette's responses with our headers and without internal errors.

The text of an exception may contain paths, so only errors that ``errors`` has described are sent.
"""

import asyncio
import logging

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Scope, Send

from dashboard import rendering

# Datasette's pages have style blocks and attributes; scripts come from files only (see the templates
# in dashboard/tables/templates, which replace those with scripts in them).
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    *((name.encode(), value.encode()) for name, value in rendering.PRIVATE.items()),
]
_DROPPED_HEADERS = {name for name, _ in _HEADERS} | {b"set-cookie"}

logger = logging.getLogger(__name__)


class BrokenOffError(Exception):
    """A response cannot be finished. Its connection is cut, so that it does not look complete."""


async def send_response(app: ASGIApp, scope: Scope, send: Send) -> None:
    """Send the response of the application, with our headers. Raises BrokenOffError."""
    has_begun = has_failed = is_over = False

    async def send_guarded(message: Message) -> None:
        nonlocal has_begun, has_failed, is_over
        if message["type"] == "http.response.start":
            if has_begun:
                raise BrokenOffError("an error in the middle of a response")
            has_failed = message["status"] >= 500 and not scope["taximeter"].is_explained
            message = {**message, "headers": [*_kept(message), *_HEADERS]}
        if not has_failed:
            has_begun = True
            await send(message)
            if scope["method"] == "HEAD":  # Datasette would go on to read all of a table for it
                is_over = True
                await send({"type": "http.response.body", "body": b""})
                raise asyncio.CancelledError

    try:
        await app(scope, _receive_nothing, send_guarded)
    except asyncio.CancelledError:
        if not is_over:
            raise
    if has_failed:
        logger.error("Datasette failed on a request")
        sorry = rendering.refuse(
            Request(scope), 500, "internal_error", "This page could not be shown."
        )
        await sorry(scope, _receive_nothing, send)


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _kept(message: Message) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = message.get("headers", [])
    return [item for item in headers if item[0].lower() not in _DROPPED_HEADERS]
