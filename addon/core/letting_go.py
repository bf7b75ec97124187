"""A replacement for the function of mitmproxy that serves a connection, for ``python -m addon`` alone.

The layers of a connection, their contexts, states and the handler hold each other. In mitmproxy they wait
for the garbage collector: some hundred objects of each connection that has ended. Where hundreds come and
go, it takes 50 ms each time to look through all of them and those that are open, for which everybody
waits, and several times as long where other programs want the processors. Here they go at once.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from mitmproxy.proxy import commands, context, events, layer
from mitmproxy.proxy.layers.http import HttpLayer
from mitmproxy.proxy.server import ConnectionHandler

type ServeClient = Callable[[ConnectionHandler], Awaitable[None]]


class _Ended:
    """Takes the place of the layers of a connection that has ended, for events that come late."""

    def handle_event(self, _event: events.Event) -> Iterator[commands.Command]:
        return iter(())


def let_go(original: ServeClient, _given: None) -> ServeClient:
    """Return a ``handle_client`` that breaks the cycles of a connection once it has ended."""

    async def handle_client(self: ConnectionHandler) -> None:
        await original(self)
        _break_cycles(self)

    return handle_client


def _break_cycles(handler: Any) -> None:
    for each in _find_layers(handler.layer.context):
        each.context.layers.clear()
        vars(each).clear()
    handler.layer = _Ended()
    handler.timeout_watchdog.callback = None  # a method of the handler; its task was cancelled


def _find_layers(top: context.Context) -> list[layer.Layer]:
    """Return all layers of a connection and of its upstream connections."""
    found: dict[layer.Layer, None] = {}
    left = list(top.layers)
    while left:
        each = left.pop()
        if each in found:
            continue
        found[each] = None
        left += each.context.layers
        if isinstance(each, HttpLayer):
            left += [*each.connections.values(), *each.streams.values()]
    return list(found)
