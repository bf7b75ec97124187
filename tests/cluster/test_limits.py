"""At most so many requests in a minute over all nodes, by the clock of the server."""

import asyncio

import pytest
import redis

from cluster import server
from cluster.limits import ClusterWindows


async def admit(url: str, times: int, limit: int, window_us: int = 60_000_000) -> list[float]:
    windows = ClusterWindows(server.connect_async(url), window_us)
    try:
        return [await windows.admit("messages default", limit) for _ in range(times)]
    finally:
        await windows.close()


async def test_two_nodes_together_admit_the_limit_and_no_more(redis_server):
    url = redis_server.url
    results = await asyncio.gather(*(admit(url, 200, 300) for _ in range(2)))
    waits = [wait_s for each in results for wait_s in each]
    assert sum(wait_s == 0 for wait_s in waits) == 300
    assert all(50 < wait_s <= 60 for wait_s in waits if wait_s)


async def test_a_place_is_free_again_after_the_window(redis_server):
    waits = await admit(redis_server.url, 3, 2, window_us=50_000)
    assert [bool(wait_s) for wait_s in waits] == [False, False, True]
    await asyncio.sleep(waits[2])
    assert await admit(redis_server.url, 1, 2, window_us=50_000) == [0]


async def test_a_server_that_is_away_is_an_error_at_once(redis_server):
    redis_server.kill()
    with pytest.raises(redis.RedisError):
        await admit(redis_server.url, 1, 2)


async def test_nobody_waits_for_hours_when_the_clock_of_the_server_was_set_back(
    redis_server, client
):
    now_us = int(client.time()[0]) * 1_000_000
    key = "taximeter:limit:messages default"
    client.lpush(key, now_us + 3_600_000_000)
    assert await admit(redis_server.url, 1, 1) == [0]
    client.lset(key, 0, now_us + 30_000_000)
    (wait_s,) = await admit(redis_server.url, 1, 1)
    assert 0 < wait_s <= 60
