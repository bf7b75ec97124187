"""The addon that chooses the layer for every client connection, and lets it go."""

from collections.abc import Awaitable

from mitmproxy import ctx
from mitmproxy.connection import Client
from mitmproxy.proxy import events, layer
from mitmproxy.proxy.server import ConnectionHandler

from addon.http1.hook_table import HookTable
from addon.http1.layer import Http1Layer
from addon.http1.upstream import Commands


class _Ended:
    """Takes the place of the layer of a connection that has ended, for events that come late."""

    def handle_event(self, _event: events.Event) -> Commands:
        yield from ()


class ChooseHttp1:
    """Chooses ``Http1Layer``, and takes it apart when its connection has ended."""

    def __init__(self, name: str, hooks: HookTable | None = None) -> None:
        """Run hooks by a table, or let mitmproxy run them.

        ``name`` is "nextlayer" where it takes the place of mitmproxy's addon of that name."""
        self.name = name
        self._hooks = hooks

    def next_layer(self, chosen: layer.NextLayer) -> None:
        """Choose it, whatever another addon chose before."""
        above = [each for each in chosen.context.layers if each is not chosen.layer]
        chosen.context.layers[:] = above
        chosen.layer = Http1Layer(chosen.context, self._hooks)

    async def taximeter_awaited(self, work: Awaitable[object]) -> None:
        """Wait for what a handler of a hook has left to be awaited."""
        await work

    def client_disconnected(self, client: Client) -> None:
        """Let the connection's objects go, which hold each other."""
        handler: ConnectionHandler | None = ctx.master.addons.get("proxyserver").connections.get(
            client.id
        )
        if handler is None:
            return
        if isinstance(handler.layer, Http1Layer):
            handler.layer.let_go()
        handler.layer = _Ended()  # type: ignore[assignment]
        handler.timeout_watchdog.callback = None  # type: ignore[assignment]
