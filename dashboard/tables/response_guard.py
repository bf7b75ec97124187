"""Datasette's responses with our headers, and without the text of internal errors.

The text of an exception may contain paths, so only errors that ``errors`` has described are sent.
"""

import asyncio
import logging

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboard import rendering

# Datasette's pages have style blocks and attributes; scripts come from files only (see the templates
# in dashboard/tables/templates, which replace those with scripts in them).
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline';"
    " connect-src 'self';"
    " img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    *((name.encode(), value.encode()) for name, value in rendering.PRIVATE.items()),
]
_DROPPED_HEADERS = {name for name, _ in _HEADERS} | {b"content-length", b"set-cookie"}

logger = logging.getLogger(__name__)


class BrokenOffError(Exception):
    """Raised if a response cannot be finished. Its connection is then cut, so that it does not look
    complete."""


async def send_response(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the response of the application, with our headers. Raises BrokenOffError."""
    guard = _Guard(scope, send)
    try:
        await app(scope, receive, guard.send)
    except asyncio.CancelledError:
        if not guard.is_over:
            raise
    if guard.has_failed:
        logger.error("Datasette failed on a request")
        sorry = rendering.refuse(
            Request(scope), 500, "internal_error", "This page could not be shown."
        )
        await sorry(scope, receive, send)


class _Guard:
    """Sends one response. Its head is held back until the first part of the body."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._head: Message | None = None
        self._has_begun = False
        self.has_failed = False
        self.is_over = False

    async def send(self, message: Message) -> None:
        """Send a message of the application, unless the response is an undescribed error (``has_failed``)."""
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif not self.has_failed:
            if self._head is not None:
                head, self._head = self._head, None
                await self._send(head if message.get("more_body") else _with_length(head, message))
            await self._send(message)

    async def _begin(self, message: Message) -> None:
        if self._has_begun:
            raise BrokenOffError("an error in the middle of a response")
        self.has_failed = message["status"] >= 500 and not self._scope["taximeter"].is_explained
        if self.has_failed:
            return
        self._has_begun = True
        self._head = {**message, "headers": [*_kept(message), *_HEADERS]}
        if self._scope["method"] == "HEAD":  # Datasette would go on to read all of a table for it
            self.is_over = True
            await self._send(self._head)
            await self._send({"type": "http.response.body", "body": b""})
            raise asyncio.CancelledError


def _with_length(head: Message, body: Message) -> Message:
    """Return the head with the content-length, for a response whose body is a single message.

    Without it, the body would be chunked, which each process that forwards it would parse and write
    again."""
    length = (b"content-length", str(len(body.get("body", b""))).encode())
    return {**head, "headers": [*head["headers"], length]}


def _kept(message: Message) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = message.get("headers", [])
    return [item for item in headers if item[0].lower() not in _DROPPED_HEADERS]
