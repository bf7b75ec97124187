"""A limit on attempts, such as requests with unknown keys or for sign-in mails.

A key of 256 random bits cannot be guessed, so this is not what protects it. The limit slows down a
program with a revoked key, and keeps a form from filling a mailbox."""

import math
from collections import defaultdict, deque
from ipaddress import IPv6Address, ip_network

BAD_KEYS_PER_MINUTE = 30
CLIENT_PREFIX, NETWORK_PREFIX = 64, 48


class MovingWindow:
    """A limit on the admissions of a key in a moving window of time, kept in memory.

    Windows start empty after a restart. Times are passed in, as seconds of any monotonic clock."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self.limit = limit
        self._window_s = window_s
        self._admitted: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, now_s: float) -> float:
        """Count a request if it is admitted. Return 0 if so, else the seconds until one is admitted."""
        times = self._admitted[key]
        while times and times[0] <= now_s - self._window_s:
            times.popleft()
        if len(times) >= self.limit:
            return times[0] + self._window_s - now_s
        times.append(now_s)
        return 0.0

    def forget_idle(self, now_s: float) -> None:
        """Drop the keys without an admission within the window."""
        for key in [
            k for k, t in self._admitted.items() if not t or t[-1] <= now_s - self._window_s
        ]:
            del self._admitted[key]


class AttemptLimit:
    """A limit of ``limit`` attempts of a key in any ``window_s`` seconds.

    Times are passed in, as monotonic seconds. It is not thread-safe."""

    def __init__(self, limit: int, window_s: float = 60.0) -> None:
        self._window = MovingWindow(limit, window_s)
        self._window_s = window_s
        self._swept_s = 0.0

    def count(self, key: str, now_s: float) -> int:
        """Count an attempt. Return 0, or the seconds to wait if the key had too many attempts."""
        if now_s - self._swept_s > self._window_s:
            self._swept_s = now_s
            self._window.forget_idle(now_s)
        return math.ceil(self._window.admit(key, now_s))


def make_bad_key_limit() -> AttemptLimit:
    """Return the limit on requests with an invalid key.

    The API and the pages share one, so that a client gets no more attempts by using both."""
    return AttemptLimit(BAD_KEYS_PER_MINUTE)


def client_network(address: str, prefix: int = CLIENT_PREFIX) -> str:
    """Return the network that an address is counted as: an IPv6 network of length ``prefix``.

    One customer has a whole /64 to call from, and a site has a /48. An IPv4 address is returned
    unchanged."""
    if ":" not in address:
        return address
    try:
        return str(ip_network((IPv6Address(address), prefix), strict=False))
    except ValueError:
        return address
