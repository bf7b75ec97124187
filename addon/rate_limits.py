"""The rate limits: a number of requests to a proxy endpoint in any minute, over all workers."""

import math
from collections.abc import Callable
from typing import Protocol

from addon import errors
from addon.destination import Destination
from addon.errors import Refusal
from runtime.shared_windows import SharedWindows
from store.control.database import ProxyEndpoint

MESSAGES_PER_MINUTE = 300
OTHER_PER_MINUTE = 600

type RejectionCounter = Callable[[ProxyEndpoint, Destination], None]

LIMITS = {
    Destination.MESSAGES: MESSAGES_PER_MINUTE,
    Destination.COUNT_TOKENS: OTHER_PER_MINUTE,
    Destination.OTHER: OTHER_PER_MINUTE,
}


class CallLimits(Protocol):
    """Limits over several machines, which have to be awaited."""

    async def admit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        """Count a request; return its refusal, or None if it is admitted."""


class RateLimits:
    """The rate limits of each kind of request for each slug.

    ``count_rejection`` is called for each request that is refused."""

    def __init__(self, windows: SharedWindows, count_rejection: RejectionCounter) -> None:
        self._windows = windows
        self._count_rejection = count_rejection

    def admit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        """Count a request; return its refusal, or None if it is admitted."""
        limit = LIMITS[destination]
        wait_s = self._windows.admit(name_window(destination, endpoint), limit)
        if not wait_s:
            return None
        self._count_rejection(endpoint, destination)
        return errors.rate_limited(limit, math.ceil(wait_s))

    def count(self, destination: Destination, endpoint: ProxyEndpoint) -> None:
        """Count a request that another limit has admitted."""
        self._windows.admit(name_window(destination, endpoint), LIMITS[destination])


def name_window(destination: Destination, endpoint: ProxyEndpoint) -> str:
    """Return the name of the window in which requests of this kind to this endpoint are counted."""
    return f"{destination.value} {endpoint.slug}"
