import asyncio
from types import SimpleNamespace

import pytest

from addon import draining
from addon.draining import Draining
from addon.exchange import Exchange
from tests.addon.endpoints import ENDPOINT


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(draining, "LOOK_AGAIN_S", 0)
    monkeypatch.setattr(draining, "LOOK_SELDOM_S", 0)


@pytest.fixture
def connect_until_closed(connect, proxyserver):
    """Makes client connections that end when they are closed."""

    def connect_one():
        handler = connect()
        task = handler.transports[handler.client].handler
        task.add_done_callback(lambda _: proxyserver.connections.pop(handler.client.id))
        return handler

    return connect_one


async def test_idle_connections_are_closed_and_an_exchange_may_end(
    connect_until_closed, exchanges, make_flow
):
    idle, busy = connect_until_closed(), connect_until_closed()
    flow = make_flow()
    flow.client_conn = busy.client
    exchanges.begin(flow, Exchange(endpoint=ENDPOINT), {})
    drain = Draining(patience_s=60)
    task = asyncio.create_task(drain.drain(exchanges))
    while not idle.closed:
        await asyncio.sleep(0)
    assert drain.has_begun
    assert not busy.closed
    exchanges.end(flow)
    await task
    assert busy.client in busy.closed


async def test_events_for_an_open_page_are_not_waited_for(
    connect_until_closed, exchanges, make_flow
):
    following = connect_until_closed()
    flow = make_flow()
    flow.client_conn = following.client
    exchanges.begin(flow, Exchange(is_endless=True), {})
    await asyncio.wait_for(Draining(patience_s=60).drain(exchanges), 30)
    assert following.client in following.closed


async def test_what_does_not_end_is_waited_for_until_patience_ends(connect, exchanges, make_flow):
    busy = connect()
    flow = make_flow()
    flow.client_conn = busy.client
    exchanges.begin(flow, Exchange(endpoint=ENDPOINT), {})
    await Draining(patience_s=0).drain(exchanges)
    assert not busy.closed


async def test_with_a_successor_idle_connections_stay_and_exchanges_take_as_long_as_they_need(
    connect_until_closed, exchanges, make_flow, monkeypatch
):
    idle, busy = connect_until_closed(), connect_until_closed()
    flow = make_flow()
    flow.client_conn = busy.client
    exchanges.begin(flow, Exchange(endpoint=ENDPOINT), {})
    clock = SimpleNamespace(now_s=100.0)
    monkeypatch.setattr(draining, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    drain = Draining(patience_s=25)
    drain.hand_over()
    task = asyncio.create_task(drain.drain(exchanges))
    for clock.now_s in (100.0, 124.0):
        for _ in range(5):
            await asyncio.sleep(0)
        assert not idle.closed
    clock.now_s = 125.0
    while not idle.closed:
        await asyncio.sleep(0)
    clock.now_s = 10_000.0
    for _ in range(5):
        await asyncio.sleep(0)
    assert not busy.closed
    exchanges.end(flow)
    for _ in range(5):
        await asyncio.sleep(0)
    clock.now_s += 25
    await asyncio.wait_for(task, 30)
    assert busy.client in busy.closed


async def test_one_with_a_successor_can_be_told_to_hurry(connect, exchanges, make_flow):
    busy = connect()
    flow = make_flow()
    flow.client_conn = busy.client
    exchanges.begin(flow, Exchange(endpoint=ENDPOINT), {})
    drain = Draining(patience_s=0)
    drain.hand_over()
    task = asyncio.create_task(drain.drain(exchanges))
    while not drain.has_begun:
        await asyncio.sleep(0)
    assert not task.done()
    drain.hurry()
    await asyncio.wait_for(task, 30)
