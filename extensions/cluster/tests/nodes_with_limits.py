"""Proxy nodes that admit requests together, each with connections that it has used already."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

from addon.destination import Destination
from addon.rate_limits import RateLimits
from extensions.cluster.limits import ClusterWindows
from extensions.cluster.proxy_limits import ClusterLimits
from runtime.shared_windows import SharedWindows
from tests.addon.endpoints import ENDPOINT

CONNECTIONS = 8


class NodesWithLimits:
    """Nodes, each with an address of the server."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._stack = AsyncExitStack()
        self._windows = [ClusterWindows(url) for url in urls]
        for windows in self._windows:
            self._stack.push_async_callback(windows.close)
        self.nodes = [self._make(windows) for windows in self._windows]

    @staticmethod
    def _make(windows: ClusterWindows) -> ClusterLimits:
        return ClusterLimits(windows, RateLimits(SharedWindows.alone(), _ignore), _ignore)

    async def __aenter__(self) -> Self:
        """Let each node have several connections in its pool."""
        for windows in self._windows:
            await asyncio.gather(*(windows.admit("other", 10_000) for _ in range(CONNECTIONS)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def admit(self, times: int) -> int:
        """Ask for so many requests at once, of each node in turn; return how many are admitted."""
        asked = (
            self.nodes[number % len(self.nodes)].admit(Destination.MESSAGES, ENDPOINT)
            for number in range(times)
        )
        return list(await asyncio.gather(*asked)).count(None)

    @property
    def alone(self) -> int:
        """Return how many nodes limit by themselves."""
        return sum(node._search is not None for node in self.nodes)


def _ignore(*_: object) -> None:
    """Count no rejection."""
