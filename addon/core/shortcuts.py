"""Replacements for functions of the core that do the same with less work.

They are for ``python -m addon`` alone, and change nothing of what is sent, refused or given to a hook.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from mitmproxy import http, options
from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers import http as http_layers
from mitmproxy.proxy.layers.http import _base, _events

# Of these names the lower case is remembered: those that are looked up are few.
MOST_NAMES = 1024

# Requests, and responses to them, of which a length is the size of the body.
_USUAL = frozenset({(b"POST", None), (b"POST", 200)})
_LENGTH = re.compile(rb"[1-9][0-9]{0,17}")

type GetAll = Callable[[http.Headers, str | bytes], list[str]]
type BodySize = Callable[[http.Request, http.Response | None], int | None]
type Fork = Callable[[context.Context], context.Context]


def index_headers(_original: GetAll, _given: None) -> GetAll:
    """Return a ``Headers.get_all`` that makes the names of a message lower case once."""

    def get_all(self: http.Headers, name: str | bytes) -> list[str]:
        values = _index(self).get(_lower(name), ())
        return [value.decode("utf-8", "surrogateescape") for value in values]

    return get_all


def _index(headers: http.Headers) -> dict[bytes, list[bytes]]:
    """Return the values by name in lower case, which hold for as long as the fields are the same."""
    fields = headers.fields
    known = headers.__dict__.get("_taximeter_index")
    if known is not None and known[0] is fields:
        index: dict[bytes, list[bytes]] = known[1]
        return index
    index = {}
    for name, value in fields:
        index.setdefault(name.lower(), []).append(value)
    headers.__dict__["_taximeter_index"] = (fields, index)
    return index


@lru_cache(MOST_NAMES)
def _lower(name: str | bytes) -> bytes:
    raw = name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")
    return raw.lower()


def remember_body_size(original: BodySize, _given: None) -> BodySize:
    """Return an ``expected_http_body_size`` that reads a message once, until it changes."""

    def expected_http_body_size(
        request: http.Request, response: http.Response | None = None
    ) -> int | None:
        headers = (response or request).headers
        status = response.data.status_code if response else None
        key = (request.data.method, status)
        known = headers.__dict__.get("_taximeter_size")
        if known is not None and known[0] is headers.fields and known[1] == key:
            remembered: int | None = known[2]
            return remembered
        size = _find_usual_size(headers, key)
        if size is None:
            size = original(request, response)
        headers.__dict__["_taximeter_size"] = (headers.fields, key, size)
        return size

    return expected_http_body_size


def _find_usual_size(headers: http.Headers, key: tuple[bytes, int | None]) -> int | None:
    """Return the size that a usual message states, or None for any other message."""
    index = _index(headers)
    lengths = index.get(b"content-length", ())
    if key not in _USUAL or len(lengths) != 1 or b"transfer-encoding" in index:
        return None
    return int(lengths[0]) if _LENGTH.fullmatch(lengths[0]) else None


def fork_without_server(_original: Fork, _given: None) -> Fork:
    """Return a ``Context.fork`` that does not make a server connection, with an id, to drop it."""

    def fork(self: context.Context) -> context.Context:
        forked = object.__new__(context.Context)
        forked.client, forked.options, forked.server = self.client, self.options, self.server
        forked.layers = self.layers.copy()
        return forked

    return fork


type MakeHook = Callable[..., commands.StartHook]


def make_without_asking(_original: MakeHook, _given: None) -> MakeHook:
    """Return a ``StartHook.__new__`` that does not ask each time whether the class is one of hooks."""

    def make(kind: type[commands.StartHook], *_: object, **__: object) -> commands.StartHook:
        return object.__new__(kind)

    return make


type HandleEvent = Callable[[layer.Layer, events.Event], layer.CommandGenerator[None]]


def handle_without_debugging(original: HandleEvent, _given: None) -> HandleEvent:
    """Return a ``Layer.handle_event`` that does not ask for each command whether to print it."""

    def handle_event(self: layer.Layer, event: events.Event) -> layer.CommandGenerator[None]:
        if self._paused is not None or self.debug is not None:
            return original(self, event)
        return _run(self, self._handle_event(event))

    return handle_event


def _run(
    self: layer.Layer, generator: layer.CommandGenerator[None]
) -> layer.CommandGenerator[None]:
    for command in generator:
        if command.blocking is True:
            command.blocking = self
            self._paused = layer.Paused(command, generator)
            yield command
            return
        yield command


type HandleInHttp = Callable[
    [http_layers.HttpLayer, layer.Layer, events.Event], layer.CommandGenerator[None]
]


def tell_commands_by_type(_original: HandleInHttp, _given: None) -> HandleInHttp:
    """Return an ``HttpLayer.event_to_child`` that looks once what kind of command it has."""

    def event_to_child(
        self: http_layers.HttpLayer, child: layer.Layer, event: events.Event
    ) -> layer.CommandGenerator[None]:
        command: Any  # of the kind that was looked up
        for command in child.handle_event(event):
            kind = type(command)
            if kind is commands.SendData or kind is commands.Log:
                yield command
            elif kind is http_layers.SendHttp:
                yield from event_to_child(self, self.connections[command.connection], command.event)
            elif kind is _base.ReceiveHttp:
                if type(command.event) is _events.RequestHeaders:
                    yield from self.make_stream(command.event.stream_id)
                stream = self.streams.get(command.event.stream_id)
                if stream is not None:
                    yield from event_to_child(self, stream, command.event)
            elif kind is http_layers.DropStream:
                self.streams.pop(command.stream_id, None)
            else:
                yield from _order(self, child, command)

    return event_to_child


def _order(
    self: http_layers.HttpLayer, child: layer.Layer, command: commands.Command
) -> layer.CommandGenerator[None]:
    """Do what the core does with the commands that are few."""
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


def fix_options(opts: options.Options) -> None:
    """Let each option be read as it is now from now on. The core makes a deep copy for each reader, of
    which there are ten for a small call. Lists go on to be copied."""
    for name in opts.keys():  # noqa: SIM118 - not a mapping
        value = getattr(opts, name)
        if value is None or isinstance(value, str | int | float):
            opts.__dict__[name] = value
