"""A node asks the cluster's server about limits, and limits by itself while it is away."""

import asyncio
from collections.abc import Sequence

import pytest
import redis

from addon.destination import Destination
from addon.rate_limits import MESSAGES_PER_MINUTE, RateLimits
from extensions.cluster.proxy_limits import ClusterLimits
from runtime.shared_windows import SharedWindows, create
from tests.addon.endpoints import ENDPOINT


class Server:
    """The windows of a server that admits, refuses or is away."""

    def __init__(self) -> None:
        self.wait_s = 0.0
        self.error: Exception | None = None
        self.asked = 0
        self.noted: dict[str, list[float]] = {}

    async def note(self, name: str, limit: int, ages_s: Sequence[float]) -> None:
        assert limit == MESSAGES_PER_MINUTE
        self.noted.setdefault(name, []).extend(ages_s)

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
        self.now_s = 1000.0
        clock_s = lambda: self.now_s  # noqa: E731
        own = RateLimits(SharedWindows(create(), clock_s), self._count)
        self.limits = ClusterLimits(self.server, own, self._count, clock_s)

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
    monkeypatch.setattr("extensions.cluster.proxy_limits.AWAY_S", 0)
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


async def find_server(node: Node) -> None:
    """Wait until a node that was without the server has found it."""
    node.server.error = None
    search = node.limits._search
    assert search is not None
    await search


async def test_the_server_is_told_what_was_admitted_without_it_in_the_last_minute(monkeypatch):
    monkeypatch.setattr("extensions.cluster.proxy_limits.AWAY_S", 0)
    node = Node()
    assert await node.admits(5) == 5
    node.server.error = redis.ConnectionError("refused")
    assert await node.admits(2) == 2
    node.now_s += 50
    assert await node.admits(3) == 3
    node.now_s += 20
    await find_server(node)
    assert node.server.noted == {"messages default": [20.0] * 3}
    assert await node.admits() == 1  # which the server counts itself
    assert node.server.noted == {"messages default": [20.0] * 3}


async def test_what_is_admitted_while_the_server_is_told_is_told_too(monkeypatch):
    monkeypatch.setattr("extensions.cluster.proxy_limits.AWAY_S", 0)
    node = Node()
    node.server.error = redis.ConnectionError("refused")
    assert await node.admits() == 1
    told = node.server.note

    async def note(name: str, limit: int, ages_s: Sequence[float]) -> None:
        await told(name, limit, ages_s)
        if len(node.server.noted[name]) < 3:
            assert await node.admits() == 1

    monkeypatch.setattr(node.server, "note", note)
    await find_server(node)
    assert node.server.noted == {"messages default": [0.0] * 3}


@pytest.mark.parametrize(
    ("error", "is_told"), [(redis.OutOfMemoryError("full"), True), (TimeoutError(), False)]
)
async def test_the_server_is_told_again_only_where_it_has_refused(monkeypatch, error, is_told):
    monkeypatch.setattr("extensions.cluster.proxy_limits.AWAY_S", 0)
    node = Node()
    node.server.error = redis.ConnectionError("refused")
    assert await node.admits(2) == 2
    told, failures = node.server.note, [error]

    async def note(name: str, limit: int, ages_s: Sequence[float]) -> None:
        if failures:
            raise failures.pop()
        await told(name, limit, ages_s)

    monkeypatch.setattr(node.server, "note", note)
    await find_server(node)
    assert node.server.noted == ({"messages default": [0.0, 0.0]} if is_told else {})
