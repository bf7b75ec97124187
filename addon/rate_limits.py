"""The rate limits: so many requests to a proxy endpoint in any minute."""

import math
import time
from collections.abc import Callable

from addon import errors
from addon.errors import Refusal
from addon.routing import Destination
from runtime.moving_window import MovingWindow
from store.control.database import ProxyEndpoint

MESSAGES_PER_MINUTE = 300
OTHER_PER_MINUTE = 600

type RejectionCounter = Callable[[ProxyEndpoint, Destination], None]


class RateLimits:
    """Holds a moving window of each kind of request for each slug. ``count_rejection`` is told of each
    request that is refused."""

    def __init__(self, count_rejection: RejectionCounter) -> None:
        self._count_rejection = count_rejection
        self._windows = {
            Destination.MESSAGES: MovingWindow(MESSAGES_PER_MINUTE),
            Destination.COUNT_TOKENS: MovingWindow(OTHER_PER_MINUTE),
            Destination.OTHER: MovingWindow(OTHER_PER_MINUTE),
        }

    def admit(self, destination: Destination, endpoint: ProxyEndpoint) -> Refusal | None:
        """Count a request; return why it is refused, or None."""
        window = self._windows[destination]
        wait_s = window.admit(endpoint.slug, time.monotonic())
        if not wait_s:
            return None
        self._count_rejection(endpoint, destination)
        return errors.rate_limited(window.limit, math.ceil(wait_s))

    def forget_idle(self, now_s: float) -> None:
        """Forget the slugs that were not used within a window."""
        for window in self._windows.values():
            window.forget_idle(now_s)
