"""The layer without sockets: its client, its upstream and its addon are a test's."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from mitmproxy import connection, hooks
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.master import Master
from mitmproxy.proxy import commands, context, events
from mitmproxy.test import taddons

from addon.body_memory import BodyMemory
from addon.http1 import chunked
from addon.http1.hook_table import HookTable
from addon.http1.layer import Http1Layer
from addon.request_heads import RequestHeads
from runtime.worker_board import WorkerBoard
from tests.addon.core.conftest import Policy

MEMORY_BYTES = 4096 * 1024


class Addon:
    """Notes the hooks that run. ``on`` has what a test does in one of them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.flows: list[Any] = []
        self.on: dict[str, Callable[[Any], object]] = {}

    def __getattr__(self, name: str) -> Callable[[Any], object]:
        if name not in {"requestheaders", "request", "responseheaders", "response", "error"}:
            raise AttributeError(name)

        def run(flow: Any) -> object:
            self.ran.append(name)
            if flow not in self.flows:
                self.flows.append(flow)
            return self.on[name](flow) if name in self.on else None

        return run


class Peers:
    """A layer with both of its sides. ``sent`` and ``upstream_sent`` is what they were sent."""

    def __init__(self, here: context.Context, addon: Addon, table: HookTable | None) -> None:
        self.layer = Http1Layer(here, table)
        self.client = here.client
        self.addon = addon
        self.sent: list[bytes] = []
        self.upstream_sent: list[bytes] = []
        self.commands: list[commands.Command] = []
        self.opening: list[commands.OpenConnection] = []
        self.wakeups: list[commands.RequestWakeup] = []
        self.feed(events.Start())

    def feed(self, event: events.Event) -> list[commands.Command]:
        """Hand an event to the layer; return what it orders."""
        return self.note(self.layer.handle_event(event))

    def note(self, ordered: Iterable[commands.Command]) -> list[commands.Command]:
        found = list(ordered)
        for command in found:
            if isinstance(command, commands.SendData):
                to = self.sent if command.connection is self.client else self.upstream_sent
                to.append(command.data)
            elif isinstance(command, commands.OpenConnection):
                self.opening.append(command)
            elif isinstance(command, commands.RequestWakeup):
                self.wakeups.append(command)
            elif isinstance(command, commands.CloseTcpConnection) and command.half_close:
                command.connection.state &= ~ConnectionState.CAN_WRITE
            elif isinstance(command, commands.CloseConnection):
                command.connection.state = ConnectionState.CLOSED
        self.commands += found
        return found

    def send(self, data: bytes) -> list[commands.Command]:
        """Let the client send something."""
        return self.feed(events.DataReceived(self.client, data))

    def leave(self) -> list[commands.Command]:
        """Let the client close its sending side."""
        self.client.state &= ~ConnectionState.CAN_READ
        return self.feed(events.ConnectionClosed(self.client))

    def open(self, error: str | None = None) -> list[commands.Command]:
        """Let the connection that was ordered be there, or fail."""
        command = self.opening[-1]
        if error is None:
            command.connection.state = ConnectionState.OPEN
            command.connection.timestamp_start = 1.0
        return self.feed(events.OpenConnectionCompleted(command, error))

    def respond(self, data: bytes) -> list[commands.Command]:
        """Let the upstream send something."""
        return self.feed(events.DataReceived(self.upstream, data))

    def end_upstream(self) -> list[commands.Command]:
        """Let the upstream close its connection."""
        self.upstream.state &= ~ConnectionState.CAN_READ
        return self.feed(events.ConnectionClosed(self.upstream))

    def wake(self) -> list[commands.Command]:
        """Let the time of the last wakeup come."""
        return self.feed(events.Wakeup(self.wakeups.pop()))

    @property
    def upstream(self) -> connection.Server:
        opened = self.opening[-1].connection
        assert isinstance(opened, connection.Server)
        return opened

    @property
    def is_closed(self) -> bool:
        return self.client.state is ConnectionState.CLOSED

    @property
    def lingers(self) -> bool:
        """Return whether only our side of the client's connection is closed."""
        return self.client.state is ConnectionState.CAN_READ

    @property
    def has_upstream(self) -> bool:
        return self.upstream.state is not ConnectionState.CLOSED

    def find(self, kind: type[commands.Command]) -> list[commands.Command]:
        return [each for each in self.commands if isinstance(each, kind)]


@pytest.fixture
def memory() -> BodyMemory:
    return BodyMemory(MEMORY_BYTES, WorkerBoard.alone())


@pytest.fixture
def policy(heads: RequestHeads, monkeypatch: pytest.MonkeyPatch) -> Policy:
    policy = Policy(heads)
    monkeypatch.setattr(Http1Layer, "policy", policy, raising=False)
    monkeypatch.setattr(chunked, "rest", chunked.Rest())
    return policy


@pytest.fixture
def make_peers(policy: Policy) -> Iterable[Callable[..., Peers]]:
    """Makes layers with their peers. Hooks run where they come up, or are left to whoever runs the layer."""
    with taddons.context(Proxyserver()) as tctx:

        def make(*, inline: bool = True) -> Peers:
            addon = Addon()
            tctx.master.addons.chain.append(addon)
            client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
            client.state = ConnectionState.OPEN
            here = context.Context(client, tctx.options)
            here.server.address = ("127.0.0.1", 3)
            return Peers(
                here, addon, HookTable(_make_manager(tctx.master, addon)) if inline else None
            )

        yield make


def _make_manager(master: Master, addon: Addon) -> AddonManager:
    """Return a manager of one addon."""
    manager = AddonManager(master)
    manager.chain = [addon]
    return manager


@pytest.fixture
def peers(make_peers: Callable[..., Peers]) -> Peers:
    return make_peers()


def run_hook(peers: Peers, hook: hooks.Hook) -> list[commands.Command]:
    """Report that a hook, which was left to whoever runs the layer, has run."""
    return peers.feed(events.HookCompleted(hook))  # type: ignore[arg-type]
