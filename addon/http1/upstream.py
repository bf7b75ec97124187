"""Connections to upstreams, with TLS or without, and directly or through an HTTP proxy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from h11._receivebuffer import ReceiveBuffer
from mitmproxy.connection import Connection, ConnectionState, Server
from mitmproxy.net.server_spec import ServerSpec
from mitmproxy.proxy import commands, context, events, layer, tunnel
from mitmproxy.proxy.layers.http._upstream_proxy import HttpUpstreamProxy
from mitmproxy.proxy.layers.tls import ServerTLSLayer

type Commands = layer.CommandGenerator[None]


class Destination(NamedTuple):
    """The host and port of a request, whether TLS is used, and the HTTP proxy ``via`` which it is sent."""

    host: str
    port: int
    is_tls: bool
    via: ServerSpec | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """The event that an attempt to connect has ended. ``error`` is None if the connection is open."""

    error: str | None


type News = Opened | events.DataReceived | events.ConnectionClosed
"""An event of a connection, after tunnels and TLS have been removed."""


class Upstream:
    """A connection without TLS. ``buffer`` holds received data until it is read."""

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.connection = Server(address=(destination.host, destination.port))
        self.transport: Connection = self.connection
        """The connection of the socket, which may be one to an HTTP proxy."""
        self.buffer = ReceiveBuffer()
        self._opening: commands.Command | None = None

    @property
    def is_usable(self) -> bool:
        """Return whether another request can be sent on the connection."""
        return self.connection.state is ConnectionState.OPEN

    @property
    def can_write(self) -> bool:
        """Return whether data can still be sent to the upstream."""
        return bool(self.connection.state & ConnectionState.CAN_WRITE)

    def open(self) -> layer.CommandGenerator[list[News]]:
        """Begin to connect, without blocking other events of the layer."""
        command = self._opening = commands.OpenConnection(self.connection)
        command.blocking = False
        yield command
        return []

    def awaits(self, command: commands.Command) -> bool:
        """Return whether the completion of ``command`` is for this connection."""
        return command is self._opening

    def receive(self, event: events.Event) -> layer.CommandGenerator[list[News]]:
        """Return the news in an event of this connection."""
        yield from ()
        if isinstance(event, events.OpenConnectionCompleted):
            self._opening = None
            return [Opened(event.reply)]
        return [event] if isinstance(event, events.DataReceived | events.ConnectionClosed) else []

    def send(self, data: bytes) -> Commands:
        """Write to the upstream."""
        yield commands.SendData(self.connection, data)

    def take_all(self) -> bytes:
        """Return the data that was not read, and forget it."""
        return bytes(self.buffer.maybe_extract_at_most(len(self.buffer)) or b"")

    def let_go(self) -> None:
        """Break the reference cycles of a connection that has ended; there are none without tunnels."""


class TunnelledUpstream(Upstream):
    """A connection through layers of mitmproxy: TLS, a tunnel through an HTTP proxy, or TLS in a tunnel."""

    def __init__(self, destination: Destination, here: context.Context) -> None:
        super().__init__(destination)
        inner = here.fork()
        inner.server = self.connection
        self.connection.via = destination.via
        stack = tunnel.LayerStack()
        if destination.via is not None:
            stack /= HttpUpstreamProxy.make(inner, send_connect=True)
        if destination.is_tls:
            self.connection.sni = destination.host  # which its certificate has to be for
            stack /= ServerTLSLayer(inner)
        self._inside = _Inside(inner)
        stack /= self._inside
        self._outermost: layer.Layer = stack[0]
        self._awaited: set[int] = set()

    def open(self) -> layer.CommandGenerator[list[News]]:
        """Begin to connect, without blocking other events of the layer."""
        return (yield from self.receive(events.Start()))

    def awaits(self, command: commands.Command) -> bool:
        """Return whether the completion of ``command`` is for this connection."""
        return id(command) in self._awaited

    def receive(self, event: events.Event) -> layer.CommandGenerator[list[News]]:
        """Return the news in an event of this connection, none while a tunnel is being made."""
        if isinstance(event, events.CommandCompleted):
            self._awaited.discard(id(event.command))
        for command in self._outermost.handle_event(event):
            if command.blocking:
                self._awaited.add(id(command))
            if isinstance(command, commands.OpenConnection):
                self.transport = command.connection
            yield command
        return self._inside.take()

    def send(self, data: bytes) -> Commands:
        """Write to the upstream."""
        return self._outermost.handle_event(_Send(data))

    def let_go(self) -> None:
        """Break the reference cycles of a connection that has ended."""
        for each in (*self._inside.context.layers, self._outermost):
            vars(each).clear()


@dataclass
class _Send(events.Event):
    """The event that data is to be sent to the upstream through the layers."""

    data: bytes


class _Inside(layer.Layer):
    """The innermost layer: it opens the connection, and keeps news until they are taken."""

    def __init__(self, here: context.Context) -> None:
        super().__init__(here)
        self._news: list[News] = []

    def _handle_event(self, event: events.Event) -> Commands:
        if isinstance(event, events.Start):
            error = yield commands.OpenConnection(self.context.server)
            self._news.append(Opened(error))
        elif isinstance(event, _Send):
            yield commands.SendData(self.context.server, event.data)
        elif isinstance(event, events.DataReceived | events.ConnectionClosed):
            self._news.append(event)

    def take(self) -> list[News]:
        """Return the news since the last call of this method."""
        news, self._news = self._news, []
        return news


class Upstreams:
    """The upstream connections of one client connection: one for each destination."""

    def __init__(self, here: context.Context) -> None:
        self._here = here
        self._open: dict[Destination, Upstream] = {}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(list(self._open.values()))

    def find_of(self, connection: Connection) -> Upstream | None:
        """Return the upstream with this connection, or None if it was dropped."""
        return next((each for each in self._open.values() if each.transport is connection), None)

    def find_awaiting(self, command: commands.Command) -> Upstream | None:
        """Return the upstream that waits for the completion of a command, or None."""
        return next((each for each in self._open.values() if each.awaits(command)), None)

    def find(self, destination: Destination) -> Upstream | None:
        """Return the connection to a destination, or None."""
        return self._open.get(destination)

    def make(self, destination: Destination) -> Upstream:
        """Return a new upstream, whose connection is still to be opened."""
        is_tunnelled = destination.is_tls or destination.via is not None
        made = TunnelledUpstream(destination, self._here) if is_tunnelled else Upstream(destination)
        self._open[destination] = made
        return made

    def drop(self, upstream: Upstream) -> Commands:
        """Close the connection of an upstream, and forget the upstream."""
        self.remove(upstream)
        yield commands.CloseConnection(upstream.transport)

    def remove(self, upstream: Upstream) -> None:
        """Forget an upstream, so that later events of its connection are ignored."""
        if self._open.get(upstream.destination) is upstream:
            del self._open[upstream.destination]

    def let_go(self) -> None:
        """Break the reference cycles of all connections."""
        for each in self._open.values():
            each.let_go()
        self._open.clear()
