"""Connections are read so that no peer takes the event loop for itself, or memory without end.

Patches of mitmproxy's connection handler and of its HTTP/1 core, each held down by a contract test:

* after each read a connection gives way to the others, also when its next bytes are there already,
  and rests when what it sent was costly to read (``addon/chunked.py``);
* while its upstream connection is being opened only little more is read from a client, for the core
  queues it;
* what a client sends while its request is being answered (the core keeps it for later) is bounded,
  and counted (``addon/request_heads.py``);
* what is held of a request body is told to the addon as it grows, so that there is a limit to it over
  all connections, and given back when its client leaves.
"""

import asyncio
from typing import Protocol

from mitmproxy import http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import HttpStream, _events, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode
from mitmproxy.proxy.server import ConnectionHandler

from addon import chunked, request_heads

# Requests that a client sends before the response to the first: SDKs send none, test programs a few.
MAX_EARLY_BYTES = 256 * 1024
READS_WHILE_CONNECTING = 16
LOOK_AGAIN_S = 0.01

_original_drain_writers = ConnectionHandler.drain_writers
_original_wait = _http1.Http1Connection.wait
_original_check_body_size = HttpStream.check_body_size
_original_handle_protocol_error = HttpStream.handle_protocol_error


class Rules(Protocol):
    """Tells the patches what the addon knows and the core does not."""

    def is_connecting(self, client_id: str) -> bool:
        """Return whether this client connection waits for an upstream connection."""

    largest_held_bytes: int
    """A body that grows beyond it is no longer held, but streamed."""

    def may_hold(self, flow: http.HTTPFlow, held_bytes: int) -> bool:
        """Return whether so much of a request body may be held, or kill the flow and return False."""

    def lets_go(self, flow: http.HTTPFlow) -> None:
        """Hear that a request body is streamed because of its size."""

    def may_hold_early(self, client_id: str, held_bytes: int) -> bool:
        """Return whether so much may be held of what came before the response."""


def patch_core(rules: Rules) -> None:
    """Apply the patches; calling it again changes nothing but the rules."""
    _patch_handler(rules)
    _patch_stream(rules)
    _patch_wait(rules)


def _patch_handler(rules: Rules) -> None:
    async def drain_and_give_way(self: ConnectionHandler) -> None:
        rest_s = chunked.rest.take_s()  # right after what was read has been dealt with
        await _original_drain_writers(self)
        if rest_s:
            await asyncio.sleep(rest_s)
        elif _has_more(self):
            await asyncio.sleep(0)
        while self.client in request_heads.waiting_for_turn and _reads_client(self):
            await asyncio.sleep(0)
        if rules.is_connecting(self.client.id):
            await _hold(self, rules)
        else:
            self.reads_while_connecting = 0  # type: ignore[attr-defined]

    ConnectionHandler.drain_writers = drain_and_give_way  # type: ignore[method-assign]


def _patch_stream(rules: Rules) -> None:
    def check_body_size(self: HttpStream, request: bool) -> layer.CommandGenerator[bool]:
        if not request:
            return False  # every response is streamed, whatever its size
        held = self.request_body_buf
        if not held or len(held) > rules.largest_held_bytes:
            if (yield from _original_check_body_size(self, request)):
                return True
            if self.flow.request.stream is True:
                rules.lets_go(self.flow)
            return False
        if rules.may_hold(self.flow, len(held)):
            return False
        held.clear()
        return (yield from self.check_killed(True))

    HttpStream.check_body_size = check_body_size  # type: ignore[method-assign]
    HttpStream.handle_protocol_error = _give_back  # type: ignore[method-assign]


def _has_more(handler: ConnectionHandler) -> bool:
    """Return whether a read of this handler would return without waiting."""
    return any(getattr(io.reader, "_buffer", None) for io in handler.transports.values())


def _reads_client(handler: ConnectionHandler) -> bool:
    """Return whether the current task is the one that reads from the client."""
    client_io = handler.transports.get(handler.client)
    return client_io is not None and client_io.handler is asyncio.current_task()


async def _hold(handler: ConnectionHandler, rules: Rules) -> None:
    """Read no more from a client than a little while its upstream connection is being opened. (A
    little: so that a client is seen to leave.)"""
    if not _reads_client(handler):
        return
    reads = getattr(handler, "reads_while_connecting", 0) + 1
    handler.reads_while_connecting = reads  # type: ignore[attr-defined]
    while reads > READS_WHILE_CONNECTING and rules.is_connecting(handler.client.id):
        await asyncio.sleep(LOOK_AGAIN_S)


def _patch_wait(rules: Rules) -> None:
    def wait(self: _http1.Http1Connection, event: events.Event) -> layer.CommandGenerator[None]:
        held_bytes = len(self.buf)
        if not isinstance(event, events.DataReceived) or (
            held_bytes <= MAX_EARLY_BYTES and rules.may_hold_early(self.conn.id, held_bytes)
        ):
            yield from _original_wait(self, event)
            return
        yield commands.CloseConnection(self.conn)
        if self.stream_id is not None:
            yield ReceiveHttp(
                self.ReceiveProtocolError(
                    self.stream_id, "Client disconnected.", code=ErrorCode.CLIENT_DISCONNECTED
                )
            )

    _http1.Http1Connection.wait = wait  # type: ignore[method-assign]


def _give_back(
    self: HttpStream, event: _events.RequestProtocolError | _events.ResponseProtocolError
) -> layer.CommandGenerator[None]:
    """Clear what is held. A stream sits in a reference cycle: what it holds would stay until a full collection."""
    yield from _original_handle_protocol_error(self, event)
    self.request_body_buf.clear()
    self.response_body_buf.clear()
