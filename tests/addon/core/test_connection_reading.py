"""The contract with mitmproxy's core about reading and holding.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import asyncio
from types import SimpleNamespace

import pytest
from mitmproxy import options
from mitmproxy.addons import proxyserver
from mitmproxy.connection import Client
from mitmproxy.proxy import context, events
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode, HttpStream, _events
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO
from mitmproxy.test import taddons, tflow

from addon.core import (
    chunked,
    connection_reading,
    request_reading,
)


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


@pytest.mark.usefixtures("unpatched")
async def test_the_core_still_reads_on_without_giving_way(handler):
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
async def test_little_is_read_from_a_client_while_its_upstream_connection_opens(
    handler, policy, monkeypatch
):
    looks = []

    async def look_again(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            policy.connecting.clear()

    monkeypatch.setattr(asyncio, "sleep", look_again)
    policy.connecting.add(handler.client.id)
    handler.transports[handler.client].handler = asyncio.current_task()
    for _ in range(connection_reading.READS_WHILE_CONNECTING):
        await handler.drain_writers()
    await asyncio.create_task(handler.drain_writers())  # the upstream's own, which must go on
    assert looks == []
    await handler.drain_writers()
    assert looks == [connection_reading.LOOK_AGAIN_S] * 3


@pytest.mark.usefixtures("patched")
async def test_no_more_is_read_while_requests_wait_for_their_turn(handler):
    waiting = request_reading.waiting_for_turn
    waiting.add(handler.client)
    handler.transports[handler.client].handler = asyncio.current_task()
    asyncio.get_running_loop().call_soon(waiting.discard, handler.client)
    await handler.drain_writers()
    assert handler.client not in waiting


@pytest.fixture
def uploading():
    """A stream that holds the first bytes of a request body."""
    with taddons.context(proxyserver.Proxyserver()) as tctx:
        here = make_context(tctx.options)
        layer = HttpLayer(here, HTTPMode.transparent)
        stream = HttpStream(here, 1)
        stream.flow = tflow.tflow()
        stream.flow.live = True
        stream.client_state = stream.state_consume_request_body
        stream.server_state = stream.state_wait_for_response_headers
        assert here.layers == [layer, stream]
        grow(stream)
        yield stream


def grow(stream):
    return list(stream.handle_event(_events.RequestData(1, bytes(1000))))


def leave(stream):
    error = _events.RequestProtocolError(1, "left", _events.ErrorCode.CLIENT_DISCONNECTED)
    list(stream.handle_event(error))
    hook = stream._paused.command  # the addon has heard of it
    list(stream.handle_event(events.HookCompleted(hook)))


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_keeps_the_body_of_a_client_that_left(uploading):
    leave(uploading)
    assert len(uploading.request_body_buf) == 1000


@pytest.mark.usefixtures("patched")
def test_the_body_of_a_client_that_left_is_given_back(uploading):
    leave(uploading)
    assert len(uploading.request_body_buf) == 0


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_holds_bodies_without_a_limit_to_all_of_them(uploading, policy):
    policy.limit = 2000
    assert [grow(uploading) for _ in range(99)] == [[]] * 99
    assert len(uploading.request_body_buf) == 100_000


@pytest.mark.usefixtures("patched")
def test_the_addon_hears_how_a_body_grows_and_may_end_it(uploading, policy):
    policy.limit = 2000
    assert grow(uploading) == []
    assert [type(command).__name__ for command in grow(uploading)] == ["HttpErrorHook"]
    assert policy.told == [1000, 2000, 3000]
    assert len(uploading.request_body_buf) == 0


@pytest.mark.usefixtures("patched")
def test_the_addon_hears_that_a_body_is_streamed_because_of_its_size(
    uploading, policy, monkeypatch
):
    def stream_it(self, _request):
        self.flow.request.stream = True
        self.request_body_buf.clear()
        yield from ()
        return False

    replacement = connection_reading.bound_held_bodies(stream_it, policy)
    monkeypatch.setattr(HttpStream, "check_body_size", replacement)
    policy.largest_held_bytes = 1500
    assert grow(uploading) == []
    assert policy.told == [1000, "streamed"]
