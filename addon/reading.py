"""How a connection is read: so that no peer takes the event loop for itself, or memory without end.

Patches of mitmproxy's connection handler and of its HTTP/1 core, each held down by a contract test:

* after each read a connection gives way to the others, also when its next bytes are there already,
  and rests when what it sent was costly to read (``addon/chunked.py``);
* while its upstream connection is being opened only little more is read from a client, for the core
  queues it;
* what a client sends while its request is being answered (the core keeps it for later) is bounded.
"""

import asyncio
from collections.abc import Callable

from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode
from mitmproxy.proxy.server import ConnectionHandler

from addon import chunked

# Requests that a client sends before the answer to the first: SDKs send none, test programs a few.
MAX_EARLY_BYTES = 256 * 1024
READS_WHILE_CONNECTING = 16
LOOK_AGAIN_S = 0.01

_original_drain_writers = ConnectionHandler.drain_writers
_original_wait = _http1.Http1Connection.wait

type IsConnecting = Callable[[str], bool]


def patch_core(is_connecting: IsConnecting) -> None:
    """Apply the patches; calling it again changes nothing but ``is_connecting``, which says whether the
    client connection with this id waits for an upstream connection."""

    async def drain_and_give_way(self: ConnectionHandler) -> None:
        rest_s = chunked.rest.take_s()  # right after what was read has been dealt with
        await _original_drain_writers(self)
        if rest_s:
            await asyncio.sleep(rest_s)
        elif _has_more(self):
            await asyncio.sleep(0)
        if is_connecting(self.client.id):
            await _hold(self, is_connecting)
        else:
            self.reads_while_connecting = 0  # type: ignore[attr-defined]

    ConnectionHandler.drain_writers = drain_and_give_way  # type: ignore[method-assign]
    _http1.Http1Connection.wait = _wait_bounded  # type: ignore[method-assign]


def _has_more(handler: ConnectionHandler) -> bool:
    """Whether a read of this handler would return without waiting."""
    return any(getattr(io.reader, "_buffer", None) for io in handler.transports.values())


async def _hold(handler: ConnectionHandler, is_connecting: IsConnecting) -> None:
    """Read no more from a client than a little while its upstream connection is being opened. (A
    little: so that a client is seen to leave.)"""
    client_io = handler.transports.get(handler.client)
    if client_io is None or client_io.handler is not asyncio.current_task():
        return
    reads = getattr(handler, "reads_while_connecting", 0) + 1
    handler.reads_while_connecting = reads  # type: ignore[attr-defined]
    while reads > READS_WHILE_CONNECTING and is_connecting(handler.client.id):
        await asyncio.sleep(LOOK_AGAIN_S)


def _wait_bounded(
    self: _http1.Http1Connection, event: events.Event
) -> layer.CommandGenerator[None]:
    if not isinstance(event, events.DataReceived) or len(self.buf) <= MAX_EARLY_BYTES:
        yield from _original_wait(self, event)
        return
    yield commands.CloseConnection(self.conn)
    if self.stream_id is not None:
        yield ReceiveHttp(
            self.ReceiveProtocolError(
                self.stream_id, "Client disconnected.", code=ErrorCode.CLIENT_DISCONNECTED
            )
        )
