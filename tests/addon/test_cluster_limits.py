"""A node asks the cluster's server about limits, and limits by itself while it is away."""

import asyncio

import pytest
import redis

from addon.cluster_limits import ClusterLimits
from addon.rate_limits import MESSAGES_PER_MINUTE, RateLimits
from addon.routing import Destination
from runtime.shared_windows import SharedWindows
from tests.addon.endpoints import ENDPOINT


class Server:
    """The windows of a server that admits, refuses or is away."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.error: Exception | None = None
        self.asked = 0

    async def admit(self, name: str, limit: int) -> float:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.wait_s

    async def connect(self) -> None:
        await self.admit("", 1)


class Node:
    def __init__(self) -> None:
        self.server = Server()
        self.rejections = 0
        own = RateLimits(SharedWindows.alone(), self._count)
        self.limits = ClusterLimits(self.server, own, self._count)

    def _count(self, *_: object) -> None:
        self.rejections += 1

    async def admits(self, times: int = 1) -> int:
        """Return how many of so many requests pass."""
        refusals = [await self.limits.admit(Destination.MESSAGES, ENDPOINT) for _ in range(times)]
        return refusals.count(None)


async def test_the_server_decides():
    node = Node()
    assert await node.admits() == 1
    node.server.wait_s = 12.3
    refusal = await node.limits.admit(Destination.MESSAGES, ENDPOINT)
    assert refusal is not None
    assert (b"retry-after", b"13") in refusal.headers
    assert node.rejections == 1


@pytest.mark.parametrize(
    "error",
    [
        redis.ConnectionError("refused"),
        TimeoutError(),
        # Of CPython 3.13, when a connection is closed between two steps of redis-py.
        AttributeError("'NoneType' object has no attribute '_add_writer'"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_without_the_server_a_node_goes_on_from_what_it_has_counted(error, caplog):
    node = Node()
    assert await node.admits(100) == 100
    node.server.error = error
    assert await node.admits(MESSAGES_PER_MINUTE) == MESSAGES_PER_MINUTE - 100
    assert "this node limits by itself" in caplog.text


async def test_no_call_asks_a_server_that_is_away_until_it_is_found_again(monkeypatch):
    node = Node()
    node.server.error = redis.ConnectionError("refused")
    assert await node.admits(5) == 5
    assert node.server.asked == 1
    monkeypatch.setattr("addon.cluster_limits.AWAY_S", 0)
    node = Node()
    node.server.error = redis.ConnectionError("refused")
    await node.admits()
    for _ in range(20):
        await asyncio.sleep(0)
    assert node.server.asked > 2  # it is looked for again and again
    node.server.error = None
    for _ in range(20):
        await asyncio.sleep(0)
    asked = node.server.asked
    assert await node.admits(5) == 5
    assert node.server.asked == asked + 5
