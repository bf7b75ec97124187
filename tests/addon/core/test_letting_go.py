"""The contract with mitmproxy about what a connection that has ended leaves behind.

When the ``still`` test fails, mitmproxy has changed: see whether the patch can go.
"""

import asyncio
import gc
import weakref

import pytest
from mitmproxy import options
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.proxy import context, events
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO

from addon import mitmproxy_patches

OPTIONS = options.Options()  # to make these leaves frames to the garbage collector, too


class Writer:
    def close(self):
        pass


class Handler(ConnectionHandler):
    """A connection of a client that leaves without a request, in a proxy without addons."""

    def __init__(self):
        client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
        client.state = ConnectionState.OPEN
        here = context.Context(client, OPTIONS)
        super().__init__(here)
        self.layer = HttpLayer(here, HTTPMode.transparent)
        reader = asyncio.StreamReader()
        reader.feed_eof()
        self.transports[client] = ConnectionIO(reader=reader, writer=Writer())  # type: ignore[arg-type]

    async def handle_hook(self, hook):
        pass


@pytest.fixture
def count_left(unpatched):
    """Returns a function that counts what is left of a connection for the garbage collector alone."""

    async def count():
        gc.collect()
        gc.disable()
        try:
            handler = Handler()
            left = [weakref.ref(each) for each in (handler, *handler.layer.context.layers)]
            await handler.handle_client()
            del handler
            for _ in range(3):
                await asyncio.sleep(0)  # the task of its timeout ends
            return sum(each() is not None for each in left)
        finally:
            gc.enable()

    return count


async def test_the_core_still_leaves_each_connection_to_the_garbage_collector(count_left):
    assert await count_left() == 2


async def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(count_left):
    mitmproxy_patches.take_shortcuts()
    assert await count_left() == 0


@pytest.mark.usefixtures("unpatched")
async def test_an_event_that_comes_after_the_end_of_its_connection_concerns_nobody():
    mitmproxy_patches.take_shortcuts()
    handler = Handler()
    await handler.handle_client()
    await handler.server_event(events.Wakeup(None))  # type: ignore[arg-type]
