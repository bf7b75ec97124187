"""What mitmproxy's core does not do for us, in one place.

Three patches of the HTTP/1 core, each held down by a contract test that fails when mitmproxy
changes under it:

* interim (1xx) responses are swallowed; without that every later response on the connection is
  shifted by one request;
* chunked bodies are read by a reader of ours (``addon/chunked.py``): what one read brought is one
  piece, and trailers are dropped instead of crashing the flow;
* errors that the core itself answers are JSON in the upstream's envelope.

Another refuses request heads with control characters that the core would strip. Two more bound the
head of a response, which the core would buffer without end, with the interim responses before it, and
refuse responses whose head is not valid HTTP.

Two shortcuts for ``python -m addon``: a dispatch table from hook to addons, and hooks that run
inline. And helpers that reach into a running proxy: listening on a socket that is already bound,
closing an upstream connection in transit, and answering or resetting a client at once.
"""

import asyncio
import logging
import re
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from inspect import isawaitable
from typing import Any

from mitmproxy import addonmanager, exceptions, flow as mitmproxy_flow, hooks, http, master
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import Connection, ConnectionState
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, context, events, layer, mode_servers
from mitmproxy.proxy.layers.http import _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import ErrorCode
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler

from addon import core_words, errors, response_heads
from addon.chunked import ChunkedReader
from addon.errors import Refusal

logger = logging.getLogger(__name__)

MAX_HEAD_BYTES = 256 * 1024
_TOO_LARGE = f"its head is larger than {MAX_HEAD_BYTES // 1024} KB"

BAD_HEAD = "control characters in its head"
# What the core takes for blanks, and strips, so that a later check would not see it.
_OTHER_BLANKS = re.compile(rb"[\x0b\x0c\r]")

_INTERIM = re.compile(rb"HTTP/1\.[01] 1(?!01)[0-9][0-9][ \r\n]")
INTERIM_PREFIX = len("HTTP/1.1 100 ")

_original_read_headers = _http1.Http1Client.read_headers
_original_read_request_head = http1.read_request_head
_original_make_body_reader = _http1.make_body_reader
_original_read_response_head = http1.read_response_head


def patch_core() -> None:
    """Apply the patches of the HTTP/1 core; calling it again changes nothing."""
    http1.read_request_head = _read_clear_request_head
    http1.read_response_head = _read_valid_response_head
    _http1.Http1Client.read_headers = _read_headers_after_interim  # type: ignore[method-assign]
    _http1.make_body_reader = _make_body_reader
    _http1.make_error_response = make_error_response


def _read_headers_after_interim(
    self: _http1.Http1Client, event: events.ConnectionEvent
) -> layer.CommandGenerator[None]:
    fault = None
    if isinstance(event, events.DataReceived) and self.request:
        if _skip_interim(self) > MAX_HEAD_BYTES:
            fault = _TOO_LARGE
        elif self.buf._data.startswith((b"\n", b"\r\n")):
            fault = "it begins with a blank line"  # the core would wait for more
    if fault is None:
        yield from _original_read_headers(self, event)
        if self.state == self.read_headers and len(self.buf) > MAX_HEAD_BYTES:
            fault = _TOO_LARGE
    if fault is not None and self.stream_id is not None:
        yield commands.CloseConnection(self.conn)
        yield ReceiveHttp(
            self.ReceiveProtocolError(
                self.stream_id,
                response_heads.CORES_PREFIX + fault,
                ErrorCode.GENERIC_SERVER_ERROR,
            )
        )
        self.state = self.done


def _skip_interim(self: _http1.Http1Client) -> int:
    """Drop the interim responses that are whole; return how many bytes of them this stream has had."""
    stream_id, skipped = getattr(self, "interim", (None, 0))
    if stream_id != self.stream_id:
        skipped = 0
    while _INTERIM.match(bytes(self.buf._data[:INTERIM_PREFIX])):
        before = len(self.buf)
        if self.buf.maybe_extract_lines() is None:
            break  # the rest of its head is still to come
        skipped += before - len(self.buf)
    self.interim = self.stream_id, skipped  # type: ignore[attr-defined]
    return skipped


def _read_valid_response_head(lines: list[bytes]) -> http.Response:
    """Return the response, or raise ValueError, which the core makes a protocol error of."""
    fault = response_heads.find_fault(lines)
    if fault is not None:
        raise ValueError(fault)
    return _original_read_response_head(lines)


def _read_clear_request_head(lines: list[bytes]) -> http.Request:
    """Return the request, or raise ValueError, which the core makes a 400 of."""
    if _OTHER_BLANKS.search(b"".join(lines)):
        raise ValueError(BAD_HEAD)
    return _original_read_request_head(lines)


def _make_body_reader(expected_size: int | None) -> Any:
    if expected_size is None:
        return ChunkedReader()
    return _original_make_body_reader(expected_size)


def make_error_response(status_code: int, message: str = "") -> bytes:
    """A whole response, head and body. It closes the connection, because a connect error sticks to
    the client connection that met it."""
    if message == BAD_HEAD:
        return assemble(to_response(errors.bad_header(message)))
    return assemble(
        to_response(
            errors.protocol_error(status_code, core_words.explain_request(status_code, message))
        )
    )


def to_response(refusal: Refusal) -> http.Response:
    """A response for mitmproxy to send; it adds the content-length."""
    return http.Response.make(refusal.status, refusal.body(), http.Headers(refusal.header_fields()))


def assemble(response: http.Response) -> bytes:
    """The bytes of a response that ends its connection."""
    response.headers["connection"] = "close"
    raw: bytes = http1.assemble_response(response)
    return raw


class DispatchTable(addonmanager.AddonManager):
    """Calls only the addons that define a hook.

    The stock manager asks every addon about every event, and about ``update`` after each of them;
    that is about half of the time a small request takes."""

    def __init__(self, owner: master.Master) -> None:
        super().__init__(owner)
        self._table: dict[str, list[Callable[..., Any]]] = {}
        self._unfinished: dict[int, Awaitable[object]] = {}

    def register(self, addon: Any) -> Any:
        self._table.clear()
        return super().register(addon)

    def remove(self, addon: Any) -> None:
        self._table.clear()
        super().remove(addon)

    def start(self, event: hooks.Hook) -> bool:
        """Call the handlers of a hook right now. Returns whether they are all done; what one of
        them left to be awaited is awaited when ``handle_lifecycle`` is called with the same hook."""
        for handler in self._handlers(event.name):
            try:
                result = handler(*event.args())
            except Exception:
                logger.exception("Addon error in %s", event.name)
                continue
            if result is not None and isawaitable(result):
                self._unfinished[id(event)] = result
                return False  # nobody comes after ours, which alone may do this
        return not self._handlers("update")

    async def handle_lifecycle(self, event: hooks.Hook) -> None:
        started = self._unfinished.pop(id(event), None)
        if started is None:
            await self.trigger_event(event)
        else:
            await self._guard(event, started)
        if self._handlers("update"):
            message = event.args()[0]
            if isinstance(message, mitmproxy_flow.Flow):
                await self.trigger_event(hooks.UpdateHook([message]))

    async def trigger_event(self, event: hooks.Hook) -> None:
        for handler in self._handlers(event.name):
            try:
                result = handler(*event.args())
            except exceptions.AddonHalt:
                return
            except exceptions.OptionsError:
                raise
            except Exception:
                logger.exception("Addon error in %s", event.name)
                continue
            if result is not None and isawaitable(result):
                await self._guard(event, result)

    async def _guard(self, event: hooks.Hook, awaitable: Awaitable[object]) -> None:
        try:
            await awaitable
        except Exception:
            logger.exception("Addon error in %s", event.name)

    def _handlers(self, name: str) -> list[Callable[..., Any]]:
        if name not in self._table:
            addons = addonmanager.traverse(self.chain)
            found = [getattr(addon, name, None) for addon in addons]
            self._table[name] = [handler for handler in found if callable(handler)]
        return self._table[name]


class InlineHooks:
    """The top layer of a client connection, with its hooks run as they come up.

    The core makes a task of every hook, which then waits for its turn of the loop to report back;
    with some eight hooks a call that is an eighth of the proxy's time. A hook whose handlers have
    all returned is reported to the layer at once; the core still gets those that must be awaited."""

    def __init__(self, top: layer.Layer, table: DispatchTable) -> None:
        self.context = top.context
        self._top = top
        self._table = table

    def handle_event(self, event: events.Event) -> Iterator[commands.Command]:
        pending: deque[events.Event] = deque((event,))
        while pending:
            for command in self._top.handle_event(pending.popleft()):
                if not isinstance(command, commands.StartHook) or not self._table.start(command):
                    yield command
                elif command.blocking:
                    pending.append(events.HookCompleted(command))


def run_hooks_inline(table: DispatchTable) -> None:
    """Put ``InlineHooks`` above every connection of the reverse proxy from now on."""
    make_top_layer = mode_servers.ReverseInstance.make_top_layer

    def make(self: mode_servers.ReverseInstance, here: context.Context) -> InlineHooks:
        return InlineHooks(make_top_layer(self, here), table)

    mode_servers.ReverseInstance.make_top_layer = make  # type: ignore[method-assign, assignment]


def listen_on(bound: socket.socket) -> None:
    """Make the reverse proxy serve a socket that is bound already.

    Whoever bound it keeps it across a restart of this process, so that clients wait in its backlog
    instead of being refused."""

    async def listen(
        self: mode_servers.ReverseInstance, _host: str, _port: int
    ) -> list[asyncio.Server]:
        return [await asyncio.start_server(self.handle_stream, sock=bound, backlog=1024)]

    mode_servers.ReverseInstance.listen = listen  # type: ignore[method-assign, assignment]


def direct(request: http.Request, scheme: str, host: str, port: int) -> None:
    """Say where a request goes. Unlike the setters of its fields this leaves its headers alone."""
    request.data.scheme, request.data.host, request.data.port = scheme.encode(), host, port


def proxyserver(owner: master.Master) -> Proxyserver:
    addon = owner.addons.get("proxyserver")
    if not isinstance(addon, Proxyserver):
        raise TypeError("mitmproxy runs without its proxyserver addon")
    return addon


def find_handler(owner: master.Master, client: Connection) -> ProxyConnectionHandler | None:
    return proxyserver(owner).connections.get(client.id)


def close_upstream(handler: ProxyConnectionHandler) -> None:
    """Close every upstream connection of a client connection, whatever state it is in."""
    for connection in list(handler.transports):
        if connection is not handler.client:
            handler.close_connection(connection)


def close_client(handler: ProxyConnectionHandler, last: http.Response | None = None) -> None:
    """Close a client connection, after a last response if there is one."""
    if handler.client in handler.transports:
        if last is not None:
            _write(handler, last)
        handler.close_connection(handler.client)


def respond_and_half_close(handler: ProxyConnectionHandler, response: http.Response) -> bool:
    """Respond to a client that has had no response head yet and send it nothing more; what it still
    sends is read and comes to nothing once its flow is killed. Return whether that was possible."""
    if not _write(handler, response):
        return False
    handler.close_connection(handler.client, half_close=True)
    return True


def _write(handler: ProxyConnectionHandler, response: http.Response) -> bool:
    """Write a whole response to a client that is still there; return whether it is."""
    transport = handler.transports.get(handler.client)
    if transport is None or not handler.client.state & ConnectionState.CAN_WRITE:
        return False
    if isinstance(transport.writer, asyncio.StreamWriter) and not transport.writer.is_closing():
        transport.writer.write(assemble(response))
    return True


def is_upstream_behind(handler: ProxyConnectionHandler) -> bool:
    """Return whether an upstream has not taken yet what was sent to it."""
    return any(
        isinstance(io.writer, asyncio.StreamWriter) and io.writer.transport.get_write_buffer_size()
        for connection, io in handler.transports.items()
        if connection is not handler.client
    )


def drop_unsent(handler: ProxyConnectionHandler) -> None:
    """End the upstream connections that have not taken everything yet: closing them in order would
    keep what they have not taken until they have."""
    for connection, io in list(handler.transports.items()):
        if connection is not handler.client and isinstance(io.writer, asyncio.StreamWriter):
            transport = io.writer.transport
            if transport.get_write_buffer_size():
                transport.abort()


def reset_client(handler: ProxyConnectionHandler) -> None:
    """End a client connection so that nobody can take what it has got for the whole."""
    transport = handler.transports.get(handler.client)
    if transport is not None and isinstance(transport.writer, asyncio.StreamWriter):
        client_socket = transport.writer.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    close_client(handler)
