"""A node asks the cluster's server about limits, and limits by itself while it is away."""

import redis

from addon.cluster_limits import AWAY_S, ClusterLimits
from addon.rate_limits import MESSAGES_PER_MINUTE, RateLimits
from addon.routing import Destination
from runtime.shared_windows import SharedWindows
from tests.addon.endpoints import ENDPOINT


class Server:
    """The windows of a server that admits, refuses or is away."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.is_away = False
        self.asked = 0

    async def admit(self, name: str, limit: int) -> float:
        self.asked += 1
        if self.is_away:
            raise redis.ConnectionError("refused")
        return self.wait_s


class Node:
    def __init__(self) -> None:
        self.server = Server()
        self.now_s = 0.0
        self.rejections = 0
        own = RateLimits(SharedWindows.alone(), self._count)
        self.limits = ClusterLimits(self.server, own, self._count, lambda: self.now_s)

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


async def test_without_the_server_a_node_goes_on_from_what_it_has_counted():
    node = Node()
    assert await node.admits(100) == 100
    node.server.is_away = True
    assert await node.admits(MESSAGES_PER_MINUTE) == MESSAGES_PER_MINUTE - 100


async def test_a_server_that_is_away_is_asked_once_a_second():
    node = Node()
    node.server.is_away = True
    assert await node.admits(5) == 5
    assert node.server.asked == 1
    node.now_s += AWAY_S
    node.server.is_away = False
    assert await node.admits(5) == 5
    assert node.server.asked == 6
