"""The rate limits over all nodes of a cluster.

A node without the server limits by itself, so that a limit may be exceeded as many times as there are
nodes; it asks again after a second, so that not every call waits for a server that is away.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Protocol

import redis

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


class ClusterLimits:
    """Asks the windows on the server, and the node's own while the server is away."""

    def __init__(
        self,
        windows: Windows,
        own: RateLimits,
        count_rejection: RejectionCounter,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._windows = windows
        self._own = own
        self._count_rejection = count_rejection
        self._clock_s = clock_s
        self._away_until_s = -math.inf
        self._trouble = TroubleLog(
            logger, "the cluster's Redis server is away (%s): this node limits by itself"
        )

    async def admit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        """Count a request; return why it is refused, or None."""
        if self._clock_s() < self._away_until_s:
            return self._own.admit(destination, endpoint)
        limit = LIMITS[destination]
        try:
            wait_s = await self._windows.admit(name_window(destination, endpoint), limit)
        except (redis.RedisError, OSError) as error:
            self._trouble.report(str(error))
            self._away_until_s = self._clock_s() + AWAY_S
            return self._own.admit(destination, endpoint)
        self._trouble.clear()
        if wait_s:
            self._count_rejection(endpoint, destination)
            return errors.rate_limited(limit, math.ceil(wait_s))
        self._own.count(destination, endpoint)  # it has to go on from here when the server is away
        return None


def make(url: str, own: RateLimits, count_rejection: RejectionCounter) -> ClusterLimits:
    """Return the limits on the cluster's server. Raises ValueError for an address that is none."""
    return ClusterLimits(ClusterWindows(server.connect_async(url)), own, count_rejection)
