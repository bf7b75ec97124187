"""Replacements for the functions of the HTTP/1 core that read requests from a client.

* Of the requests that one read brought, one is dealt with in a turn of the event loop, and no more is
  read until all are.
* A head is refused that is too large (``head_bounds.py``), for which there is no memory, or that has
  control characters which mitmproxy would strip, or a first line that others would read otherwise. What
  comes after it is thrown away.
* What is held of a head, or of what comes after a request, is reported as it grows, so that it is
  counted with the bodies of requests, and how long a head takes can be seen.
* What a client sends while its request is being responded to (mitmproxy keeps it for later) is bounded.
"""

import re
from collections.abc import Callable
from weakref import WeakSet

from h11._receivebuffer import ReceiveBuffer
from mitmproxy import http
from mitmproxy.connection import Connection
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode

from addon import errors, own_responses
from addon.core import head_bounds, messages
from addon.core.read_policy import HeadPolicy, ReadPolicy
from addon.errors import Refusal

# Requests that a client sends before the response to the first: SDKs send none, test programs a few.
MAX_EARLY_BYTES = 256 * 1024

# How a client begins that speaks TLS. It will send nothing more before it gets a response.
TLS_RECORD = b"\x16"

BAD_HEAD = "control characters in its head"
# What mitmproxy takes for blanks, and strips, so that a later check would not see it.
_OTHER_BLANKS = re.compile(rb"[\x0b\x0c\r]")

# mitmproxy also takes other blanks and versions, and makes a method upper case for us, not for upstreams.
_FIRST_LINE = re.compile(rb"[A-Z][A-Z-]* [!-~\x80-\xff]+ HTTP/1\.[0-9]")

_EMPTY_LINES = re.compile(rb"(?:\r?\n)+")

# Clients whose next request is there already, and waits for the next turn of the event loop.
waiting_for_turn: WeakSet[Connection] = WeakSet()
# Clients that have got their last response. What they still send is thrown away unread.
refused: WeakSet[Connection] = WeakSet()

type HeadersReader = Callable[[_http1.Http1Server, events.Event], layer.CommandGenerator[None]]


def take_turns(original: HeadersReader, policy: ReadPolicy) -> HeadersReader:
    """Return an ``Http1Server.read_headers`` that bounds heads and pauses between requests."""
    heads = policy.heads

    def read_headers(self: _http1.Http1Server, event: events.Event) -> layer.CommandGenerator[None]:
        client_id = self.conn.id
        if isinstance(event, events.ConnectionClosed):
            throw_away(self)  # mitmproxy would log it
            heads.forget(client_id)
        elif self.conn in refused:
            throw_away(self)
            return
        elif isinstance(event, events.Wakeup):
            waiting_for_turn.discard(self.conn)
            event = events.DataReceived(self.conn, b"")
        elif self.conn in waiting_for_turn:
            return  # kept for its turn
        elif isinstance(event, events.DataReceived) and not event.data:
            # So mitmproxy goes on with what is there already when a request has been dealt with.
            waiting_for_turn.add(self.conn)
            yield commands.RequestWakeup(0)
            return
        yield from _read_head(self, event, original, heads)

    return read_headers


def _read_head(
    self: _http1.Http1Server, event: events.Event, original: HeadersReader, heads: HeadPolicy
) -> layer.CommandGenerator[None]:
    if self.buf._data.startswith((b"\r", b"\n")):
        # mitmproxy drops one empty line, and looks at what follows when more comes.
        empty = _EMPTY_LINES.match(self.buf._data)
        self.buf.maybe_extract_at_most(empty.end() if empty else 0)
    excess = head_bounds.find_excess(self.buf._data, heads.largest_bytes)
    if excess is not None:
        heads.count_too_large()
        yield from _refuse(self, heads, errors.head_too_large(excess))
        return
    client_id, stream_id = self.conn.id, self.stream_id
    yield from original(self, event)
    if self.state != self.read_headers or self.stream_id != stream_id:
        heads.is_whole(client_id)
        heads.hold(client_id, len(self.buf))
    elif self.buf:
        heads.await_rest(client_id)
        refusal = _judge(heads, client_id, self.buf)
        if refusal is not None:
            yield from _refuse(self, heads, refusal)


def _judge(heads: HeadPolicy, client_id: str, held: ReceiveBuffer) -> Refusal | None:
    if bytes(held._data[:1]) == TLS_RECORD:
        return errors.protocol_error(400, "This port speaks plain HTTP: use http:// to reach it.")
    return None if heads.hold(client_id, len(held)) else errors.memory_full()


def _refuse(
    self: _http1.Http1Server, heads: HeadPolicy, refusal: Refusal
) -> layer.CommandGenerator[None]:
    """Respond and close our side only, as ``responder`` does: so the client can read the response."""
    refused.add(self.conn)
    throw_away(self)
    heads.hold(self.conn.id, 0)
    heads.await_rest(self.conn.id)  # until its client closes too, or for as long as a head may take
    yield commands.SendData(self.conn, own_responses.assemble(own_responses.to_response(refusal)))
    yield commands.CloseTcpConnection(self.conn, half_close=True)


def throw_away(self: _http1.Http1Connection) -> None:
    """Forget what has come and is not dealt with."""
    self.buf.maybe_extract_at_most(len(self.buf))


type EarlyReader = Callable[[_http1.Http1Connection, events.Event], layer.CommandGenerator[None]]


def bound_early_data(original: EarlyReader, policy: ReadPolicy) -> EarlyReader:
    """Return an ``Http1Connection.wait`` that bounds what clients send before their response."""
    may_hold = policy.heads.hold

    def wait(self: _http1.Http1Connection, event: events.Event) -> layer.CommandGenerator[None]:
        if self.conn in refused and isinstance(event, events.DataReceived):
            throw_away(self)
        held_bytes = len(self.buf)
        if not isinstance(event, events.DataReceived) or (
            held_bytes <= MAX_EARLY_BYTES and may_hold(self.conn.id, held_bytes)
        ):
            yield from original(self, event)
            return
        yield commands.CloseConnection(self.conn)
        if self.stream_id is not None:
            yield ReceiveHttp(
                self.ReceiveProtocolError(
                    self.stream_id, "Client disconnected.", code=ErrorCode.CLIENT_DISCONNECTED
                )
            )

    return wait


type HeadReader = Callable[[list[bytes]], http.Request]


def refuse_ambiguous_heads(original: HeadReader, _policy: ReadPolicy) -> HeadReader:
    """Return an ``http1.read_request_head`` that refuses control characters and odd first lines."""

    def read_request_head(lines: list[bytes]) -> http.Request:
        """Return the request, or raise ValueError, which mitmproxy makes a 400 of."""
        if _OTHER_BLANKS.search(b"".join(lines)):
            raise ValueError(BAD_HEAD)
        if _FIRST_LINE.fullmatch(lines[0]) is None:
            raise ValueError("Bad HTTP request line")
        return original(lines)

    return read_request_head


type ErrorResponseMaker = Callable[[int, str], bytes]


def respond_in_json(_original: ErrorResponseMaker, _given: object) -> ErrorResponseMaker:
    """Return a ``make_error_response`` that responds in JSON and quotes nothing."""
    return make_error_response


def make_error_response(status_code: int, message: str = "") -> bytes:
    """Return the bytes of a response to what mitmproxy refuses. It closes the connection, because a
    connect error sticks to the client connection that met it."""
    if message == BAD_HEAD:
        refusal = errors.bad_header(message)
    else:
        explanation = messages.explain_request(status_code, message)
        refusal = errors.protocol_error(status_code, explanation)
    return own_responses.assemble(own_responses.to_response(refusal))
