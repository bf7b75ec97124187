"""The rate limits over all nodes of a cluster.

A node without the server limits by itself, so that a limit may be exceeded as many times as there are
nodes. It looks for the server again each second, beside the calls: none waits for one that is away.
"""

import asyncio
import logging
import math
from typing import Protocol

from addon import errors
from addon.errors import Refusal
from addon.rate_limits import LIMITS, RateLimits, RejectionCounter, name_window
from addon.routing import Destination
from cluster import server
from cluster.limits import ClusterWindows
from runtime.trouble_log import TroubleLog
from store.control.database import ProxyEndpoint

logger = logging.getLogger(__name__)

AWAY_S = 1.0


class Windows(Protocol):
    """The windows on the server."""

    async def admit(self, name: str, limit: int) -> float: ...

    async def connect(self) -> None: ...


class ClusterLimits:
    """Asks the windows on the server, and the node's own while the server is away."""

    def __init__(
        self,
        windows: Windows,
        own: RateLimits,
        count_rejection: RejectionCounter,
    ) -> None:
        self._windows = windows
        self._own = own
        self._count_rejection = count_rejection
        self._search: asyncio.Task[None] | None = None
        self._trouble = TroubleLog(
            logger, "the cluster's Redis server is away (%s): this node limits by itself"
        )

    async def admit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        """Count a request; return why it is refused, or None."""
        if self._search is not None:
            return self._own.admit(destination, endpoint)
        limit = LIMITS[destination]
        try:
            wait_s = await self._windows.admit(name_window(destination, endpoint), limit)
        except Exception as error:  # whatever it is, the node limits by itself
            self._trouble.report(str(error) or type(error).__name__)
            if self._search is None:
                self._search = asyncio.create_task(self._find_server())
            return self._own.admit(destination, endpoint)
        self._trouble.clear()
        if wait_s:
            self._count_rejection(endpoint, destination)
            return errors.rate_limited(limit, math.ceil(wait_s))
        self._own.count(destination, endpoint)  # it has to go on from here when the server is away
        return None

    async def _find_server(self) -> None:
        """Look for the server until it is there."""
        is_there = False
        while not is_there:
            await asyncio.sleep(AWAY_S)
            try:
                await self._windows.connect()
                is_there = True
            except Exception as error:  # it is looked for again
                self._trouble.report(str(error) or type(error).__name__)
        self._search = None


def make(url: str, own: RateLimits, count_rejection: RejectionCounter) -> ClusterLimits:
    """Return the limits on the cluster's server. Raises ValueError for an address that is none."""
    return ClusterLimits(ClusterWindows(server.connect_async(url)), own, count_rejection)
