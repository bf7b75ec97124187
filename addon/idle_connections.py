"""Closing connections that wait for a request when file descriptors run short."""

import logging
from collections.abc import Callable

from addon.core import connections
from runtime import descriptors
from runtime.trouble_log import TroubleLog

logger = logging.getLogger(__name__)

# So many are closed in one go, which takes some 50 ms, four times a second.
MOST_AT_ONCE = 1000


class IdleConnections:
    """The client connections without a request, those idle longest first.

    A connection is idle until a call is forwarded, or a request for the web process is complete. They
    are closed only while more than three quarters of the descriptors are in use (but see
    ``timeouts``)."""

    def __init__(
        self,
        count_open: Callable[[], int] = descriptors.count_open,
        read_limit: Callable[[], int] = descriptors.read_limit,
    ) -> None:
        self._count_open = count_open
        self._read_limit = read_limit
        self._idle: dict[str, None] = {}  # by client connection, in the order in which they began
        self._shortage = TroubleLog(
            logger,
            "Three quarters of all file descriptors (%s) are in use: the connections that are idle"
            " longest are closed. Raise `ulimit -Hn`.",
        )

    def begin(self, client_id: str) -> None:
        """Note that a connection is idle from now on."""
        self._idle.pop(client_id, None)
        self._idle[client_id] = None

    def end(self, client_id: str) -> None:
        """Note that a connection has a request or has ended."""
        self._idle.pop(client_id, None)

    def make_room(self, now_s: float) -> None:
        """Close the longest idle connections if more than three quarters of the descriptors are in use.

        So many are closed that half of the descriptors are left."""
        limit = self._read_limit()
        if len(self._idle) < limit // 8:
            return  # there is little to gain, and counting takes a while
        in_use = self._count(limit)
        if in_use * 4 <= limit * 3:
            return
        self._shortage.report_at(now_s, str(limit))
        for client_id in list(self._idle)[: min(in_use - limit // 2, MOST_AT_ONCE)]:
            del self._idle[client_id]
            handler = connections.find_handler(client_id)
            if handler is not None:
                connections.close_client(handler)

    def _count(self, limit: int) -> int:
        try:
            return self._count_open()
        except OSError:  # there is none left to count them with
            return limit
