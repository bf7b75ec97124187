"""Replacements for the functions of mitmproxy that read from connections, and hold request bodies.

* After each read a connection gives way to the others, also when its next bytes are there already,
  and rests when what it sent was costly to read (``chunked.py``).
* While its upstream connection is being opened only little more is read from a client, for mitmproxy
  queues it.
* What is held of a request body is reported as it grows, so that there is a limit to it over all
  connections, and given back when its client leaves.
"""

import asyncio
from collections.abc import Awaitable, Callable

from mitmproxy.proxy import layer
from mitmproxy.proxy.layers.http import HttpStream, _events
from mitmproxy.proxy.server import ConnectionHandler

from addon.core import body_reading, chunked, request_reading
from addon.core.direct_reading import DirectReader
from addon.core.read_policy import ReadPolicy

READS_WHILE_CONNECTING = 16
LOOK_AGAIN_S = 0.01

type Drain = Callable[[ConnectionHandler], Awaitable[None]]


def give_way(original: Drain, policy: ReadPolicy) -> Drain:
    """Return a ``drain_writers`` that lets other connections have their turn after each read."""

    async def drain_writers(self: ConnectionHandler) -> None:
        rest_s = chunked.rest.take_s()  # right after what was read has been dealt with
        if _has_unsent(self):
            await original(self)
        if rest_s:
            await asyncio.sleep(rest_s)
        elif _has_more(self):
            await asyncio.sleep(0)
        while self.client in request_reading.waiting_for_turn and _reads_client(self):
            await asyncio.sleep(0)
        while self.client in body_reading.postponed and _reads_client(self):
            await asyncio.sleep(LOOK_AGAIN_S)
        if policy.is_connecting(self.client.id):
            await _wait_for_upstream(self, policy)
        else:
            self.reads_while_connecting = 0  # type: ignore[attr-defined]

    return drain_writers


def _has_unsent(handler: ConnectionHandler) -> bool:
    """Return whether something that was written has not been taken yet, or cannot be any more."""
    for io in handler.transports.values():
        if isinstance(io.writer, asyncio.StreamWriter) and (
            io.writer.transport.get_write_buffer_size() or io.writer.is_closing()
        ):
            return True
    return False


def _has_more(handler: ConnectionHandler) -> bool:
    """Return whether a read of this handler would return without waiting."""
    return any(getattr(io.reader, "_buffer", None) for io in handler.transports.values())


def _reads_client(handler: ConnectionHandler) -> bool:
    """Return whether what is going on is a read from the client."""
    client_io = handler.transports.get(handler.client)
    if client_io is None:
        return False
    reader: object = client_io.reader
    if isinstance(reader, DirectReader):
        return reader.is_at_work
    return client_io.handler is asyncio.current_task()


async def _wait_for_upstream(handler: ConnectionHandler, policy: ReadPolicy) -> None:
    """Read only a little more from a client while its upstream connection is being opened. A little
    is read so that a client is seen to leave."""
    if not _reads_client(handler):
        return
    reads = getattr(handler, "reads_while_connecting", 0) + 1
    handler.reads_while_connecting = reads  # type: ignore[attr-defined]
    while reads > READS_WHILE_CONNECTING and policy.is_connecting(handler.client.id):
        await asyncio.sleep(LOOK_AGAIN_S)


type BodySizeCheck = Callable[[HttpStream, bool], layer.CommandGenerator[bool]]


def bound_held_bodies(original: BodySizeCheck, policy: ReadPolicy) -> BodySizeCheck:
    """Return an ``HttpStream.check_body_size`` that bounds all request bodies together."""

    def check_body_size(self: HttpStream, request: bool) -> layer.CommandGenerator[bool]:
        if not request:
            return False  # every response is streamed, whatever its size
        held = self.request_body_buf
        if not held or len(held) > policy.largest_held_bytes:
            if (yield from original(self, request)):
                return True
            if self.flow.request.stream is True:
                policy.stop_holding(self.flow)
            return False
        if policy.may_hold(self.flow, len(held)):
            return False
        held.clear()
        return (yield from self.check_killed(True))

    return check_body_size


type ErrorHandler = Callable[
    [HttpStream, _events.RequestProtocolError | _events.ResponseProtocolError],
    layer.CommandGenerator[None],
]


def give_bodies_back(original: ErrorHandler, _policy: ReadPolicy) -> ErrorHandler:
    """Return a ``handle_protocol_error`` that frees the body of a client that left."""

    def handle_protocol_error(
        self: HttpStream, event: _events.RequestProtocolError | _events.ResponseProtocolError
    ) -> layer.CommandGenerator[None]:
        yield from original(self, event)
        # A stream sits in a reference cycle: what it holds would stay until a full collection.
        self.request_body_buf.clear()
        self.response_body_buf.clear()

    return handle_protocol_error
