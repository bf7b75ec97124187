"""The addon that chooses the layer for every client connection, and releases it afterwards."""

from collections.abc import Awaitable

from mitmproxy import ctx
from mitmproxy.connection import Client
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.server import ConnectionHandler

from addon.http1.hook_table import HookTable
from addon.http1.layer import Http1Layer
from addon.http1.upstream import Commands


class _Ended:
    """Replaces the layer of a connection that has ended, and ignores late events."""

    def handle_event(self, _event: events.Event) -> Commands:
        yield from ()


class ChooseHttp1:
    """Chooses ``Http1Layer`` for connections, and breaks the reference cycles of those that have ended."""

    def __init__(self, name: str, hooks: HookTable | None = None) -> None:
        """Run hooks with the table ``hooks``; if it is None, mitmproxy runs them.

        ``name`` is "nextlayer" if this replaces mitmproxy's addon of that name."""
        self.name = name
        self._hooks = hooks

    def next_layer(self, chosen: layer.NextLayer) -> None:
        """Choose ``Http1Layer``, whatever another addon chose before."""
        above = [each for each in chosen.context.layers if each is not chosen.layer]
        chosen.context.layers[:] = above
        chosen.layer = Http1Layer(chosen.context, self._hooks)

    async def taximeter_awaited(self, work: Awaitable[object]) -> None:
        """Await the rest of the work of a handler of a hook."""
        await work

    def client_disconnected(self, client: Client) -> None:
        """Release the objects of the connection, which refer to each other."""
        handler: ConnectionHandler | None = ctx.master.addons.get("proxyserver").connections.get(
            client.id
        )
        if handler is None:
            return
        if isinstance(handler.layer, Http1Layer):
            handler.layer.let_go()
        handler.layer = _Ended()  # type: ignore[assignment]
        handler.timeout_watchdog.callback = None  # type: ignore[assignment]
