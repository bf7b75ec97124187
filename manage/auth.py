"""Who is calling the API: a service API key as Bearer, and a limit on keys that are not good.

Guessing 256 random bits is hopeless, so the limit is not what keeps a key safe. It tells a program
with a revoked key to slow down, and says so per client. A good key passes whatever others at the same
address do: behind one office's address a forgotten script must not lock everybody out.
"""

import math
import threading
from collections.abc import Sequence
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address, ip_network

from store.key_holders import parse_bearer
from store.moving_window import MovingWindow

FAILURES_PER_MINUTE = 30
CLIENT_HEADER = "x-taximeter-client"


def find_bearer(values: Sequence[str]) -> str | None:
    """The token of the only ``Authorization`` header; None where there is none to be read."""
    return parse_bearer(values[0]) if len(values) == 1 else None


def find_client(values: Sequence[str], mark: str, peer: str) -> str:
    """The client's address as the front door tells it, ``<mark> <address>``. Whoever does not know
    the mark is not the front door, and is known by the address it comes from itself."""
    if len(values) == 1 and mark:
        said_mark, _, address = values[0].partition(" ")
        if compare_digest(said_mark.encode(), mark.encode()):
            return address
    return peer


class FailureLimit:
    """Counts keys that were not good, for several threads. The clock is passed in: monotonic
    seconds."""

    def __init__(self, per_minute: int = FAILURES_PER_MINUTE) -> None:
        self._window = MovingWindow(per_minute)
        self._swept_s = 0.0
        self._lock = threading.Lock()

    def count(self, address: str, now_s: float) -> int:
        """Count a failure. Returns 0, or the seconds to wait for an address that had too many."""
        with self._lock:
            if now_s - self._swept_s > 60:
                self._swept_s = now_s
                self._window.forget_idle(now_s)
            return math.ceil(self._window.admit(_neighbourhood(address), now_s))


def _neighbourhood(address: str) -> str:
    """One customer has a whole /64 of IPv6 to call from."""
    try:
        ip = ip_address(address)
    except ValueError:
        return address
    return str(ip_network((ip, 64), strict=False)) if isinstance(ip, IPv6Address) else address
