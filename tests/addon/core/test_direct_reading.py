"""The contract with mitmproxy about when it deals with what has come.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import asyncio
import gc
import weakref
from contextlib import suppress
from types import SimpleNamespace

import pytest
from mitmproxy import options
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy import context, events
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO

from addon import mitmproxy_patches
from addon.core.direct_reading import MOST_OF_BODY_BYTES
from addon.http1.client_side import ClientInput


class Transport(asyncio.Transport):
    """Stands in for a socket, and notes whether it is read from."""

    def __init__(self):
        super().__init__()
        self.is_read = True
        self.max_size = 0

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True


class Writer:
    def close(self):
        pass


class Handler(ConnectionHandler):
    """Notes its events. It has something to wait for after each while ``free`` is not set."""

    def __init__(self, client):
        super().__init__(context.Context(client, options.Options()))
        self.seen = []
        self.free = asyncio.Event()
        self.free.set()

    async def handle_hook(self, hook):
        raise AssertionError(hook)

    async def server_event(self, event):
        self.seen.append(getattr(event, "data", type(event)))

    async def drain_writers(self):
        await self.free.wait()


class Reading:
    """A connection that is being read."""

    def __init__(self, *early):
        client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
        client.state = ConnectionState.OPEN
        self.handler = Handler(client)
        self.transport = Transport()
        self.reader = asyncio.StreamReader()
        self.reader.set_transport(self.transport)
        for data in early:
            self.reader.feed_data(data)
        self.io = ConnectionIO(reader=self.reader, writer=Writer())  # type: ignore[arg-type]
        self.handler.transports[client] = self.io
        self.task = asyncio.create_task(self.handler.handle_connection(client))

    @property
    def seen(self):
        return self.handler.seen


@pytest.fixture
async def read():
    """Begins to read a connection; returns once all that came early has been dealt with."""
    tasks = []

    async def begin(*early):
        reading = Reading(*early)
        tasks.append(reading.task)
        for _ in range(3):
            await asyncio.sleep(0)
        return reading

    yield begin
    for task in tasks:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def direct(unpatched):
    mitmproxy_patches.read_directly()


@pytest.mark.usefixtures("unpatched")
async def test_mitmproxy_still_reads_in_a_later_turn(read):
    reading = await read()
    reading.reader.feed_data(b"data")
    assert reading.seen == []


@pytest.mark.usefixtures("direct")
async def test_what_comes_is_dealt_with_at_once_and_after_what_came_early(read):
    reading = await read(b"early", b" bird")
    for data in (b"1", b"2"):
        reading.reader.feed_data(data)
    assert reading.seen == [b"early bird", b"1", b"2"]


@pytest.mark.usefixtures("direct")
async def test_nothing_more_is_read_while_the_connection_has_to_wait(read):
    reading = await read()
    reading.handler.free.clear()
    reading.reader.feed_data(b"1")
    assert not reading.transport.is_read
    reading.handler.free.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert reading.transport.is_read
    reading.reader.feed_data(b"2")
    assert (reading.seen, reading.transport.is_read) == ([b"1", b"2"], True)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    ("left", "most"),
    [(1, 65_535), (100_000, 100_000), (MOST_OF_BODY_BYTES + 1, MOST_OF_BODY_BYTES)],
)
async def test_more_is_read_at_once_of_a_body_of_which_much_is_left(read, waits, left, most):
    reading = await read()
    held = ClientInput()
    reading.handler.layer = SimpleNamespace(input=held)
    sizes = [reading.transport.max_size]
    for each in (left, 0):
        held.left_bytes = each
        if waits:
            reading.handler.free.clear()
        reading.reader.feed_data(b"1")
        reading.handler.free.set()
        for _ in range(2):
            await asyncio.sleep(0)
        sizes.append(reading.transport.max_size)
    assert sizes == [65_535, most, 65_535]


@pytest.mark.usefixtures("direct")
async def test_a_task_is_made_only_where_there_is_something_to_wait_for(read):
    reading = await read()
    before = asyncio.all_tasks()
    reading.reader.feed_data(b"1")
    assert asyncio.all_tasks() == before
    reading.handler.free.clear()
    reading.reader.feed_data(b"2")
    (work,) = asyncio.all_tasks() - before
    reading.handler.free.set()
    await work


@pytest.mark.usefixtures("direct")
async def test_a_connection_that_waits_again_and_again_is_read_on_after_the_last_time(read):
    reading = await read()
    waited: list[object] = []

    async def wait():
        for number in range(3):
            await asyncio.sleep(0)
            waited.append(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        waited.append("caught")

    reading.handler.drain_writers = wait
    reading.reader.feed_data(b"1")
    async with asyncio.timeout(30):
        while not reading.transport.is_read:
            await asyncio.sleep(0)
    assert waited == [0, 1, 2, "caught"]


@pytest.mark.usefixtures("direct")
async def test_what_reads_a_connection_goes_with_it_without_a_collection_of_garbage(read):
    reading = await read()
    reader = weakref.ref(reading.reader)
    reading.handler.client.state = ConnectionState.CAN_READ  # we have closed our side
    reading.reader.feed_eof()
    await asyncio.wait([reading.task])
    gc.disable()
    try:
        del reading.reader, reading.io
        assert reader() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("direct")
async def test_what_reads_a_connection_that_is_cancelled_goes_with_it_too(read):
    reading = await read()
    reader = weakref.ref(reading.reader)
    gc.disable()
    try:
        reading.task.cancel()
        await asyncio.wait([reading.task])
        del reading.reader, reading.io
        assert reader() is None
    finally:
        gc.enable()


@pytest.mark.usefixtures("direct")
async def test_it_is_known_which_connection_is_being_read(read):
    reading, other = await read(), await read()
    at_work = []

    async def note(_event):
        at_work.append((reading.io.reader.is_at_work, other.io.reader.is_at_work))

    reading.handler.server_event = note
    reading.reader.feed_data(b"1")
    assert at_work == [(True, False)]
    assert not reading.io.reader.is_at_work


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda reader: reader.feed_eof(), id="a half-closed connection"),
        pytest.param(lambda reader: reader.set_exception(ConnectionResetError()), id="a reset"),
    ],
)
async def test_the_end_of_a_connection_is_told_after_what_came_before(read, end):
    reading = await read()
    reading.handler.free.clear()
    reading.reader.feed_data(b"1")
    end(reading.reader)
    await asyncio.sleep(0)
    assert reading.seen == [b"1"]
    reading.handler.free.set()
    for _ in range(4):
        await asyncio.sleep(0)
    assert reading.seen == [b"1", events.ConnectionClosed]


@pytest.mark.usefixtures("direct")
async def test_a_connection_that_is_closed_waits_for_nothing(read):
    reading = await read()
    reading.handler.free.clear()
    reading.reader.feed_data(b"1")
    reading.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading.task
    assert reading.seen == [b"1", events.ConnectionClosed]
    assert reading.handler.transports == {}
    assert len(asyncio.all_tasks()) == 1
