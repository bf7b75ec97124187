"""The rules for the page of the dashboard that sends a call again.

Only this page may use a proxy endpoint although its origin is not listed. It has a ticket of the web
process (``runtime/replay_tickets.py``), which pages elsewhere cannot get, since it is in a page for
somebody who is signed in, under a host name of ours. The credential is the one that the user pastes
there, and is handled as that of any client."""

import re
import time
from collections.abc import Callable

from addon import headers
from addon.headers import Fields
from runtime import replay_tickets
from runtime.local_requests import parse_host
from runtime.setting_values import LOOPBACK_HOSTS

TICKET = replay_tickets.HEADER.encode()
_TARGET = re.compile(r"/proxy/([^/?#]+)/run/([^/?#]+)/v1/messages(?:\?[^#]*)?")


class ReplayRules:
    """Detects the requests of the page that sends calls again."""

    def __init__(
        self, secret: str, host: str | None, clock_s: Callable[[], float] = time.time
    ) -> None:
        """Check tickets with ``secret``, which the web process has too. ``host`` is that of the base URL."""
        self._secret = secret
        self._hosts = LOOPBACK_HOSTS | {host}
        self._clock_s = clock_s

    def find_origin(self, method: str, target: str, fields: Fields) -> bytes | None:
        """Return the origin of our page, or None for a request without a valid ticket."""
        tickets = headers.get_all(fields, TICKET)
        if len(tickets) != 1 or method != "POST" or (place := _TARGET.fullmatch(target)) is None:
            return None
        origins, hosts = (headers.get_all(fields, name) for name in (b"origin", b"host"))
        sites = headers.get_all(fields, b"sec-fetch-site")
        if len(origins) != 1 or len(hosts) != 1 or sites not in ([], [b"same-origin"]):
            return None
        if parse_host(hosts[0].decode("latin-1")) not in self._hosts:
            return None
        if origins[0] not in (b"http://" + hosts[0], b"https://" + hosts[0]):
            return None
        ticket, now_s = tickets[0].decode("latin-1"), self._clock_s()
        if not replay_tickets.is_valid(ticket, self._secret, place[1], place[2], now_s):
            return None
        return origins[0]
