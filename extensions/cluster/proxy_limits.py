"""The rate limits over all nodes of a cluster.

While the server is away, each node limits alone, so a limit may be exceeded as many times as there are
nodes. A node looks for the server again each second, in the background, so no call waits for it. When
the server is back, the admissions of the last minute are written there before anything else is
admitted."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from redis.exceptions import ResponseError

from addon import errors
from addon.destination import Destination
from addon.errors import Refusal
from addon.rate_limits import LIMITS, RateLimits, RejectionCounter, name_window
from extensions.cluster.limits import ClusterWindows
from runtime.shared_windows import WINDOW_S
from runtime.trouble_log import TroubleLog
from store.control.database import ProxyEndpoint

logger = logging.getLogger(__name__)

AWAY_S = 1.0


class Windows(Protocol):
    """The windows on the server."""

    async def admit(self, name: str, limit: int) -> float: ...

    async def note(self, name: str, limit: int, ages_s: Sequence[float]) -> None: ...

    async def connect(self) -> None: ...


class ClusterLimits:
    """The rate limits by windows on the server, or by the node's own windows while the server is away."""

    def __init__(
        self,
        windows: Windows,
        own: RateLimits,
        count_rejection: RejectionCounter,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._windows = windows
        self._clock_s = clock_s
        # The instants of what was admitted without the server, by the name and the limit of the window.
        self._untold: dict[tuple[str, int], deque[float]] = {}
        self._own = own
        self._count_rejection = count_rejection
        self._search: asyncio.Task[None] | None = None
        self._trouble = TroubleLog(
            logger, "the cluster's Redis server is away (%s): this node limits by itself"
        )

    async def admit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        """Count a request; return its refusal, or None if it is admitted."""
        if self._search is not None:
            return self._admit_alone(destination, endpoint)
        limit = LIMITS[destination]
        try:
            wait_s = await self._windows.admit(name_window(destination, endpoint), limit)
        except Exception as error:  # whatever it is, the node limits by itself
            self._trouble.report(str(error) or type(error).__name__)
            if self._search is None:
                self._search = asyncio.create_task(self._find_server())
            return self._admit_alone(destination, endpoint)
        self._trouble.clear()
        if wait_s:
            self._count_rejection(endpoint, destination)
            return errors.rate_limited(limit, math.ceil(wait_s))
        self._own.count(destination, endpoint)  # it has to go on from here when the server is away
        return None

    def _admit_alone(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        refusal = self._own.admit(destination, endpoint)
        if refusal is None:
            window = name_window(destination, endpoint), LIMITS[destination]
            self._untold.setdefault(window, deque()).append(self._clock_s())
        return refusal

    async def _find_server(self) -> None:
        """Try to reach the server until it has got the admissions that were made without it."""
        is_told = False
        while not is_told:
            await asyncio.sleep(AWAY_S)
            self._forget_old()
            try:
                await self._windows.connect()
                await self._tell()
                is_told = True
            except Exception as error:  # it is looked for again
                self._trouble.report(str(error) or type(error).__name__)
        self._search = None

    def _forget_old(self) -> None:
        """Drop admissions that are more than a minute old."""
        since_s = self._clock_s() - WINDOW_S
        for window, instants_s in list(self._untold.items()):
            while instants_s and instants_s[0] <= since_s:
                instants_s.popleft()
            if not instants_s:
                del self._untold[window]

    async def _tell(self) -> None:
        """Write admissions made without the server to it. Raises what ``Windows.note`` raises.

        Each window is written once, unless the server refuses it: if only the response is lost, the
        server may have it, and counting calls twice would refuse others."""
        while self._untold:
            window, instants_s = self._untold.popitem()
            now_s = self._clock_s()
            try:
                await self._windows.note(*window, [now_s - each for each in instants_s])
            except ResponseError:
                self._untold.setdefault(window, deque()).extendleft(reversed(instants_s))
                raise


def make(url: str, own: RateLimits, count_rejection: RejectionCounter) -> ClusterLimits:
    """Return the limits on the cluster's server. Raises ValueError for an invalid URL."""
    return ClusterLimits(ClusterWindows(url), own, count_rejection)
