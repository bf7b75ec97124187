"""The connections of a query process, each with one request to an ASGI application (see protocol)."""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Scope

from dashboard.queries.protocol import (
    LENGTH_BYTES,
    RUNNING,
    decode_request,
    encode_head,
    make_frame,
)

logger = logging.getLogger(__name__)


async def listen(
    app: ASGIApp,
    listener: socket.socket,
    abandoned: threading.Event,
    on_broken: Callable[[], None],
) -> asyncio.Server:
    """Serve an application. ``abandoned`` is set when nobody waits for the response any more, and
    ``on_broken`` is called when the connection ends while the response is being made."""
    return await asyncio.get_running_loop().create_unix_server(
        lambda: _Connection(app, abandoned, on_broken), sock=listener
    )


class _Connection(asyncio.Protocol):
    """A connection, which confirms its request, and stops it when nobody waits for the response."""

    _transport: asyncio.Transport

    def __init__(
        self, app: ASGIApp, abandoned: threading.Event, on_broken: Callable[[], None]
    ) -> None:
        self._app = app
        self._abandoned = abandoned
        self._on_broken = on_broken
        self._received = bytearray()
        self._responding: asyncio.Task[None] | None = None
        self._head: bytes | None = None  # sent together with the first part of the body
        self._has_begun, self._is_whole = False, False  # to be written, and to its end
        self._is_dropping = False  # what is sent from now on
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._responding is None:
            self._received += data
            end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES])
            if len(self._received) < max(end, LENGTH_BYTES + 1):
                return
            self._transport.write(RUNNING)  # before anything is computed
            scope = _make_scope(bytes(self._received[LENGTH_BYTES:end]))
            self._responding = asyncio.create_task(self._respond(scope))
            data = bytes(self._received[end:])
        if data:
            self._abandoned.set()
            self._drop()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        is_broken = (
            self._responding is not None and not self._responding.done() and not self._is_whole
        )
        self._drop()
        if is_broken:
            self._on_broken()

    def _drop(self) -> None:
        self._is_dropping = True
        self._may_write.set()

    async def _respond(self, scope: Scope) -> None:
        try:
            await self._app(scope, _receive_nothing, self._send)
        except Exception:
            # Nothing of a bug reaches the caller but a 500, or a response without its end.
            logger.exception("a response could not be made")
            if not self._has_begun:
                await PlainTextResponse("Internal Server Error", 500)(
                    scope, _receive_nothing, self._send
                )
        finally:
            if self._is_dropping:
                self._transport.abort()
            else:
                self._transport.close()

    async def _send(self, message: Message) -> None:
        """Write a message, when the one before is nearly written."""
        await self._may_write.wait()
        if self._is_dropping:
            return
        if message["type"] == "http.response.start":
            self._head = make_frame(encode_head(message["status"], message["headers"]))
            return
        body = message.get("body", b"")
        frames = [self._head or b"", make_frame(body) if body else b""]
        if not message.get("more_body"):
            frames.append(make_frame(b""))
            self._is_whole = True
        self._head, self._has_begun = None, True
        self._transport.write(b"".join(frames))


def _make_scope(payload: bytes) -> Scope:
    method, target, headers = decode_request(payload)
    raw_path, _, query_string = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query_string,
        "root_path": "",
        "headers": headers,
        "client": None,
        "server": None,
    }


async def _receive_nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}
