"""The query process's side of connections: requests, one after the other, for an ASGI application.

``protocol`` has the format of requests and responses.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import unquote

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope

from dashboard.queries.protocol import (
    LENGTH_BYTES,
    RUNNING,
    STOP,
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
) -> "Server":
    """Serve an application on a listening socket.

    ``abandoned`` is set when the web process does not want the response any more; ``on_broken`` is
    called if the connection ends while a response is being made."""
    server = Server(app, abandoned, on_broken)
    server.listening = await asyncio.get_running_loop().create_unix_server(
        lambda: _Connection(server), sock=listener
    )
    return server


@dataclass(slots=True)
class Server:
    """An application that is served on a socket until ``close`` is called."""

    app: ASGIApp
    abandoned: threading.Event
    on_broken: Callable[[], None]
    is_closing: bool = False
    connections: "set[_Connection]" = field(default_factory=set)
    listening: asyncio.Server = field(init=False)

    def close(self) -> None:
        """Stop listening; responses that are being made are finished."""
        self.is_closing = True
        self.listening.close()
        for connection in self.connections:
            connection.end_if_idle()

    async def wait_closed(self) -> None:
        """Wait until the last response is sent."""
        await self.listening.wait_closed()


class _Connection(asyncio.Protocol):
    """A connection from the web process. It confirms each request, and stops it if the response is
    abandoned."""

    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = bytearray()
        self._responding: asyncio.Task[None] | None = None
        self._head: bytes | None = None  # sent together with the first part of the body
        self._has_begun, self._is_whole = False, False  # to be written, and to its end
        self._is_dropping = False  # what is sent from now on
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._server.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._responding is None:
            self._begin()
        if self._responding is not None and not self._is_whole and self._received:
            self._server.abandoned.set()
            self._drop()

    def _begin(self) -> None:
        """Start the next request if it is complete; close the connection if it is a stop instead."""
        if self._received.startswith(STOP):
            self._transport.abort()
            return
        end = LENGTH_BYTES + int.from_bytes(self._received[:LENGTH_BYTES])
        if len(self._received) < max(end, LENGTH_BYTES + 1):
            return
        self._transport.write(RUNNING)  # before anything is computed
        scope, body = _make_scope(bytes(self._received[LENGTH_BYTES:end]))
        del self._received[:end]
        self._has_begun, self._is_whole = False, False
        self._responding = asyncio.create_task(self._respond(scope, body))

    def end_if_idle(self) -> None:
        """Close the connection, unless a response is being made."""
        if self._responding is None:
            self._transport.close()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def connection_lost(self, error: Exception | None) -> None:
        is_broken = self._responding is not None and not self._is_whole
        self._server.connections.discard(self)
        self._drop()
        if is_broken:
            self._server.on_broken()

    def _drop(self) -> None:
        self._is_dropping = True
        self._may_write.set()

    async def _respond(self, scope: Scope, body: bytes) -> None:
        try:
            await self._server.app(scope, _make_receive(body), self._send)
        except Exception:
            # Nothing of a bug reaches the caller but a 500, or a response without its end.
            logger.exception("a response could not be made")
            if not self._has_begun:
                await PlainTextResponse("Internal Server Error", 500)(
                    scope, _make_receive(b""), self._send
                )
        finally:
            self._responding = None
            if self._is_dropping:
                self._transport.abort()
            elif self._is_whole and not self._server.is_closing:
                self._begin()  # the next request may have come meanwhile
            else:
                self._transport.close()

    async def _send(self, message: Message) -> None:
        """Write a message of the response after waiting for room in the write buffer."""
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


def _make_scope(payload: bytes) -> tuple[Scope, bytes]:
    """Parse a request frame of the web process (``decode_request``) into an ASGI scope and a body."""
    method, target, headers, body = decode_request(payload)
    raw_path, _, query_string = target.partition(b"?")
    scope = {
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
    return scope, body


def _make_receive(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
