"""The contract with mitmproxy about when it reads.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import asyncio
from types import SimpleNamespace

import pytest
from mitmproxy import options
from mitmproxy.connection import Client
from mitmproxy.proxy import context, layer
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO

from addon.core import connection_reading
from addon.http1 import chunked
from addon.http1.client_side import ClientInput


class Handler(ConnectionHandler):
    """One whose client has sent more than was read."""

    async def handle_hook(self, hook):
        raise AssertionError(hook)


def make_context(opts=None):
    client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
    return context.Context(client, opts or options.Options())


@pytest.fixture
async def handler():
    handler = Handler(make_context())
    reader = asyncio.StreamReader()
    handler.transports[handler.client] = ConnectionIO(reader=reader)
    return handler


async def gives_way(handler):
    """Return whether something else can run while the handler drains."""
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    await handler.drain_writers()
    return bool(ran)


async def test_mitmproxy_still_takes_the_longest_silence_from_an_option():
    opts = options.Options()
    opts.update(tcp_timeout=7)
    handler = Handler(make_context(opts))
    assert handler.timeout_watchdog.timeout == 7
    assert handler.transports == {}
    assert isinstance(handler.layer, layer.NextLayer)


@pytest.mark.usefixtures("unpatched")
async def test_mitmproxy_still_reads_on_without_giving_way(handler):
    handler.transports[handler.client].reader.feed_data(b"more")
    assert not await gives_way(handler)


@pytest.mark.usefixtures("patched")
async def test_a_connection_with_more_to_read_gives_way_first(handler):
    assert not await gives_way(handler)
    handler.transports[handler.client].reader.feed_data(b"more")
    assert await gives_way(handler)


class Writer(asyncio.StreamWriter):
    """One that has not been taken everything from, or cannot any more."""

    def __init__(self, *, unsent, is_closing):
        self._unsent, self._is_closing = unsent, is_closing
        self.drained = False

    def __del__(self):
        pass

    @property
    def transport(self):
        return SimpleNamespace(get_write_buffer_size=lambda: self._unsent)

    def is_closing(self):
        return self._is_closing

    async def drain(self):
        self.drained = True


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(
    ("unsent", "is_closing", "waits"), [(0, False, False), (1, False, True), (0, True, True)]
)
async def test_writers_that_have_sent_everything_are_not_waited_for(
    handler, unsent, is_closing, waits
):
    writer = Writer(unsent=unsent, is_closing=is_closing)
    handler.transports[handler.client].writer = writer
    await handler.drain_writers()
    assert writer.drained is waits


@pytest.mark.usefixtures("patched")
async def test_a_costly_read_is_followed_by_a_rest(handler, monkeypatch):
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    chunked.rest.note(10_000)
    await handler.drain_writers()
    await handler.drain_writers()
    assert slept == [pytest.approx(0.2)]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("reason", ["an upstream", "a hook"])
async def test_little_is_read_from_a_client_that_waits(handler, policy, monkeypatch, reason):
    looks = []
    held = ClientInput()
    handler.layer = SimpleNamespace(input=held)

    async def look_again(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            policy.connecting.clear()
            held.awaits_hook = False

    monkeypatch.setattr(asyncio, "sleep", look_again)
    if reason == "a hook":
        held.awaits_hook = True
    else:
        policy.connecting.add(handler.client.id)
    handler.transports[handler.client].handler = asyncio.current_task()
    for _ in range(connection_reading.READS_WHILE_WAITING):
        await handler.drain_writers()
    await asyncio.create_task(handler.drain_writers())  # the upstream's own, which must go on
    assert looks == []
    await handler.drain_writers()
    assert looks == [connection_reading.LOOK_AGAIN_S] * 3


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("reason", ["waits_for_turn", "is_postponed"])
async def test_no_more_is_read_while_what_has_come_waits(handler, reason, monkeypatch):
    held = ClientInput()
    setattr(held, reason, True)
    handler.layer = SimpleNamespace(input=held)
    handler.transports[handler.client].handler = asyncio.current_task()
    looks = []

    async def look_again(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            setattr(held, reason, False)

    monkeypatch.setattr(asyncio, "sleep", look_again)
    await handler.drain_writers()
    assert len(looks) == 3
