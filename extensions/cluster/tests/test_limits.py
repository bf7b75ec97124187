"""At most so many requests in a minute over all nodes, by the clock of the server."""

import asyncio
import socket
from contextlib import AsyncExitStack

import pytest
import redis

from addon.destination import Destination
from addon.rate_limits import RateLimits
from extensions.cluster import server
from extensions.cluster.limits import WINDOW_US, ClusterWindows
from extensions.cluster.proxy_limits import ClusterLimits
from runtime.shared_windows import SharedWindows
from tests.addon.endpoints import ENDPOINT

KEY = "taximeter:limit:messages default"


async def admit(url: str, times: int, limit: int) -> list[float]:
    windows = ClusterWindows(url)
    try:
        return [await windows.admit("messages default", limit) for _ in range(times)]
    finally:
        await windows.close()


async def test_two_nodes_together_admit_the_limit_and_no_more(redis_server):
    url = redis_server.url
    results = await asyncio.gather(*(admit(url, 200, 300) for _ in range(2)))
    waits = [wait_s for each in results for wait_s in each]
    assert sum(wait_s == 0 for wait_s in waits) == 300
    assert all(1 < wait_s <= 60 for wait_s in waits if wait_s)


async def test_a_place_is_free_again_after_the_window(redis_server, client):
    waits = await admit(redis_server.url, 3, 2)
    assert [bool(wait_s) for wait_s in waits] == [False, False, True]
    client.lset(KEY, 1, int(client.lindex(KEY, 1)) - WINDOW_US)  # as if that had been a minute ago
    waits = await admit(redis_server.url, 2, 2)
    assert [bool(wait_s) for wait_s in waits] == [False, True]


async def test_a_server_that_is_away_is_an_error_at_once(redis_server):
    redis_server.kill()
    with pytest.raises(redis.RedisError):
        await admit(redis_server.url, 1, 2)


async def test_nobody_waits_for_hours_when_the_clock_of_the_server_was_set_back(
    redis_server, client
):
    now_us = int(client.time()[0]) * 1_000_000
    client.lpush(KEY, now_us + 60 * WINDOW_US)
    assert await admit(redis_server.url, 1, 1) == [0]
    client.lset(KEY, 0, now_us + WINDOW_US // 2)
    (wait_s,) = await admit(redis_server.url, 1, 1)
    assert 1 < wait_s <= 60


async def test_what_nodes_admitted_without_the_server_is_in_its_window(redis_server, client):
    url = redis_server.url
    await admit(url, 2, 5)
    windows = ClusterWindows(url)
    await windows.note("messages default", 5, [30.0, 10.0])
    instants = [int(each) for each in client.lrange(KEY, 0, -1)]
    assert instants == sorted(instants, reverse=True)
    assert len(instants) == 4
    assert instants[2] - instants[3] == pytest.approx(20e6, abs=1)
    assert await windows.admit("messages default", 5) == 0
    assert 5 < await windows.admit("messages default", 5) <= 30
    await windows.note("messages default", 5, [1.0] * 5)  # no more than the limit is kept
    assert client.llen(KEY) == 5
    assert 30 < await windows.admit("messages default", 5) <= 59
    before = client.lrange(KEY, 0, -1)
    client.config_set("maxmemory", 1)
    with pytest.raises(redis.OutOfMemoryError):
        await windows.note("messages default", 5, [0.0])
    assert client.lrange(KEY, 0, -1) == before
    await windows.close()


async def test_after_an_absence_of_the_server_nodes_admit_no_second_minute(
    redis_server, monkeypatch
):
    """Each may have admitted the limit by itself."""
    monkeypatch.setattr("extensions.cluster.proxy_limits.AWAY_S", 0.01)
    async with AsyncExitStack() as stack:

        def make_node() -> ClusterLimits:
            windows = ClusterWindows(redis_server.url)
            stack.push_async_callback(windows.close)
            return ClusterLimits(windows, RateLimits(SharedWindows.alone(), ignore), ignore)

        async def admit_by(node: ClusterLimits, times: int) -> int:
            refusals = [await node.admit(Destination.MESSAGES, ENDPOINT) for _ in range(times)]
            return refusals.count(None)

        first, second, new = (make_node() for _ in range(3))
        assert await admit_by(first, 100) == 100
        redis_server.kill()
        assert [await admit_by(node, 150) for node in (first, second)] == [150, 150]
        redis_server.start()
        searches = [node._search for node in (first, second)]
        assert None not in searches
        await asyncio.gather(*filter(None, searches))
        assert [await admit_by(node, 1) for node in (first, second, new)] == [0, 0, 0]


def ignore(*_: object) -> None:
    """Count no rejection."""


def count_connections(listener: socket.socket) -> int:
    """Accept and close the connections that wait; return how many there were."""
    found = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return found
        found += 1


@pytest.mark.slow
async def test_a_call_waits_for_one_silent_sentinel_and_a_search_asks_each_once(monkeypatch):
    # redis-py would ask again and again, with pauses in between.
    monkeypatch.setattr(server, "QUICK_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        windows = ClusterWindows(f"redis+sentinel://{host},{host}/main")
        with pytest.raises((redis.RedisError, TimeoutError)):
            await windows.admit("messages default", 1)
        assert count_connections(listener) <= 1
        with pytest.raises(redis.RedisError):
            await windows.connect()
        assert count_connections(listener) <= 2
        await windows.close()
