"""A limit on attempts that failed or cost something: unknown keys, requests for mail.

A key of 256 random bits cannot be guessed, so this is not what protects it. It slows down a program
with a revoked key, and keeps a form from filling a mailbox.
"""

import math
from collections import defaultdict, deque
from ipaddress import IPv6Address, ip_network

BAD_KEYS_PER_MINUTE = 30
CLIENT_PREFIX, NETWORK_PREFIX = 64, 48


class MovingWindow:
    """A limit on the admissions of a key in a moving window, kept in memory.

    Windows start empty after a restart. Times are passed in, as seconds of any monotonic clock."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self.limit = limit
        self._window_s = window_s
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, now_s: float) -> float:
        """Count one request. Returns 0 when it may pass, else the seconds until one may."""
        times = self._admitted[key]
        while times and times[0] <= now_s - self._window_s:
            times.popleft()
        if len(times) >= self.limit:
            return times[0] + self._window_s - now_s
        times.append(now_s)
        return 0.0

    def forget_idle(self, now_s: float) -> None:
        """Drop the keys that nothing was admitted for within the window."""
        for key in [
            k for k, t in self._admitted.items() if not t or t[-1] <= now_s - self._window_s
        ]:
            del self._admitted[key]


class AttemptLimit:
    """A limit of ``limit`` attempts of a key in any ``window_s`` seconds. For one thread. Times are
    passed in, as monotonic seconds."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self._window = MovingWindow(limit, window_s)
        self._window_s = window_s
        self._swept_s = 0.0

    def count(self, key: str, now_s: float) -> int:
        """Count an attempt. Returns 0, or the seconds to wait for a key that had too many."""
        if now_s - self._swept_s > self._window_s:
            self._swept_s = now_s
            self._window.forget_idle(now_s)
        return math.ceil(self._window.admit(key, now_s))


def make_bad_key_limit() -> AttemptLimit:
    """Return a limit on requests with an invalid key.

    The API and the pages share one, so that a client has no more attempts with both than with one."""
    return AttemptLimit(BAD_KEYS_PER_MINUTE)


def client_network(address: str, prefix: int = CLIENT_PREFIX) -> str:
    """Return the network that an address is counted as: one customer has a whole /64 of IPv6 to
    call from, and a site has a /48. An IPv4 address stands for itself."""
    if ":" not in address:
        return address
    try:
        return str(ip_network((IPv6Address(address), prefix), strict=False))
    except ValueError:
        return address
