"""Replacements for functions of mitmproxy by which a layer goes on as soon as its hook has run.

In mitmproxy a layer that yields a hook pauses: every layer above it returns, and once the hook has run, an
event of its completion goes down through all of them to the one that waits. That is a tenth of what a
small call takes, which has four such hooks. Here the layer looks whether its hook has run when its
generator is resumed (``InlineHooks`` then says so by ``blocking``), and pauses only if it has not.

On the way up, a command is asked once what kind it is of, and not at all whether to print it. A stream
that is done leaves nothing to the garbage collector.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from mitmproxy.connection import Server
from mitmproxy.proxy import commands, events, layer, server
from mitmproxy.proxy.layers import http as http_layers
from mitmproxy.proxy.layers.http import _base, _events, _http1

type Generator = layer.CommandGenerator[None]
type HandleEvent = Callable[[layer.Layer, events.Event], Generator]


def handle_without_pauses(original: HandleEvent, _given: object) -> HandleEvent:
    """Return a ``Layer.handle_event`` that goes on after a hook that has run."""

    def handle_event(self: layer.Layer, event: events.Event) -> Generator:
        if self._paused is not None or self.debug is not None:
            return original(self, event)
        generator = self._handle_event(event)
        return _run(self, generator, generator)

    return handle_event


type Process = Callable[[layer.Layer, Generator, object], Generator]


def process_without_pauses(_original: Process, _given: object) -> Process:
    """Return a ``Layer.__process`` that goes on in a paused layer after a hook that has run."""

    def process(self: layer.Layer, generator: Generator, reply: object = None) -> Generator:
        try:
            first = generator.send(reply)
        except StopIteration:
            return
        yield from _run(self, chain((first,), generator), generator)

    return process


def _run(self: layer.Layer, left: Iterator[commands.Command], generator: Generator) -> Generator:
    """Yield the commands that are left of a generator, up to one that has to be waited for."""
    for command in left:
        if command.blocking is True:
            command.blocking = self
            self._paused = layer.Paused(command, generator)
            yield command
            if command.blocking is self:
                return
            self._paused = None
        else:
            yield command


type HandleInHttp = Callable[[http_layers.HttpLayer, layer.Layer, events.Event], Generator]


def tell_commands_by_type(_original: HandleInHttp, _given: object) -> HandleInHttp:
    """Return an ``HttpLayer.event_to_child`` that looks once what kind of command it has."""

    def event_to_child(
        self: http_layers.HttpLayer, child: layer.Layer, event: events.Event
    ) -> Generator:
        command: Any  # of the kind that was looked up
        for command in child.handle_event(event):
            kind = type(command)
            if kind is commands.SendData:
                yield command
            elif kind is commands.Log and not server.logger.isEnabledFor(command.level):
                continue
            elif kind is http_layers.SendHttp:
                yield from event_to_child(self, self.connections[command.connection], command.event)
            elif kind is _base.ReceiveHttp:
                if type(command.event) is _events.RequestHeaders:
                    yield from self.make_stream(command.event.stream_id)
                stream = self.streams.get(command.event.stream_id)
                if stream is not None:
                    yield from event_to_child(self, stream, command.event)
            elif kind is http_layers.DropStream:
                _drop(self.streams.pop(command.stream_id, None))
            else:
                yield from _order(self, child, command)

    return event_to_child


def _drop(stream: http_layers.HttpStream | None) -> None:
    """Break the cycles of a stream that is done: its layers, and the methods that are its states.

    So it goes at once, with its flow and some seventy objects, and the next call uses their memory while
    that is in the processor's cache. Else all of them wait for the garbage collector."""
    if stream is not None:
        stream.context.layers.clear()
        stream.client_state = stream.server_state = _state_dropped


def _state_dropped(_event: events.Event) -> Generator:
    """Do nothing: the state of a stream to which no more events come."""
    yield from ()


def _order(self: http_layers.HttpLayer, child: layer.Layer, command: commands.Command) -> Generator:
    """Carry out the commands that are rare, as mitmproxy does."""
    if isinstance(command, commands.StartHook):
        yield command
        if command.blocking:  # it runs on, and its completion will be for this child
            self.command_sources[command] = child
        return
    if command.blocking or isinstance(command, commands.RequestWakeup):
        self.command_sources[command] = child
    if isinstance(command, http_layers.GetHttpConnection):
        yield from self.get_connection(command)
    elif isinstance(command, http_layers.RegisterHttpConnection):
        yield from self.register_connection(command)
    else:
        if isinstance(command, commands.OpenConnection):
            self.connections[command.connection] = child
        yield command


type MakeConnection = Callable[[http_layers.HttpStream], layer.CommandGenerator[bool]]


def find_open_connection(original: MakeConnection, _given: object) -> MakeConnection:
    """Return an ``HttpStream.make_server_connection`` that pauses only if no connection is open."""

    def make_server_connection(self: http_layers.HttpStream) -> layer.CommandGenerator[bool]:
        found = _find_open(self)
        if found is None:
            return (yield from original(self))
        self.context.server = self.flow.server_conn = found
        return True

    return make_server_connection


def _find_open(self: http_layers.HttpStream) -> Server | None:
    """Return the upstream connection that mitmproxy would take at once, or None where it would not."""
    request, server, layers = self.flow.request, self.flow.server_conn, self.context.layers
    wanted = http_layers.GetHttpConnection(
        (request.host, request.port),
        request.scheme == "https",
        server.via,
        server.transport_protocol,
    )
    parent: Any = layers[layers.index(self) - 1]
    for connection in parent.connections:
        if connection is not self.context.client and wanted.connection_spec_matches(connection):
            is_ready = (
                connection.connected
                and not connection.error
                and connection not in parent.waiting_for_establishment
                and self.context.client.alpn != b"h2"
            )
            return connection if is_ready else None
    return None


type HandleRead = Callable[[http_layers.HttpLayer, events.Event], Generator]


def pass_reads_on(original: HandleRead, _given: object) -> HandleRead:
    """Return an ``HttpLayer.handle_event`` that gives what was read to the layer of its connection."""

    def handle_event(self: http_layers.HttpLayer, event: events.Event) -> Generator:
        if type(event) is events.DataReceived:
            child = self.connections.get(event.connection)
            if child is not None:
                return self.event_to_child(child, event)
        return layer.Layer.handle_event(self, event)

    return handle_event


type HandleInConnection = Callable[[_http1.Http1Connection, events.Event], Generator]


def hand_over_in_connection(_original: HandleInConnection, _given: object) -> HandleInConnection:
    """Return an ``Http1Connection._handle_event`` that hands its state's generator over."""

    def handle_event(self: Any, event: events.Event) -> Any:
        if isinstance(event, _base.HttpEvent):
            return self.send(event)
        if isinstance(event, events.DataReceived) and self.state != self.passthrough:
            self.buf += event.data
        return self.state(event)

    return handle_event


type HandleInStream = Callable[[http_layers.HttpStream, events.Event], Generator]


def hand_over_in_stream(original: HandleInStream, _given: object) -> HandleInStream:
    """Return an ``HttpStream._handle_event`` that hands its state's generator over."""
    of_client = (_events.RequestHeaders, _events.RequestData, _events.RequestEndOfMessage)
    of_server = (_events.ResponseHeaders, _events.ResponseData, _events.ResponseEndOfMessage)

    def handle_event(self: Any, event: events.Event) -> Any:
        if isinstance(event, of_client):
            return self.client_state(event)
        if isinstance(event, of_server):
            return self.server_state(event)
        return original(self, event)

    return handle_event
