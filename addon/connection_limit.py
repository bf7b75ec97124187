"""The limit on the connections that one client may have at a time, over all workers.

It is checked when a connection is accepted, before objects are made for it, so calls on open
connections pay nothing. A client is an IPv4 address or a /64 network of IPv6. Loopback and trusted
proxies are not limited: all programs of the machine, and all clients behind a proxy, share their
address.

A client above the limit gets 503 and its connection is closed. It may have sent a request by then, and
closing a socket with unread data would take the response back; so up to ``MOST_LINGERING`` of these
sockets are closed a moment later."""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address

from addon import errors
from addon.client_address import is_in, unmap
from addon.own_responses import write_last
from runtime.attempts import client_network
from runtime.setting_values import Network
from runtime.trouble_log import TroubleLog
from runtime.worker_board import Shared, WorkerBoard

logger = logging.getLogger(__name__)

LINGER_S = 2.0
MOST_LINGERING = 256


class ConnectionLimit:
    """Counts the connections of each client, and refuses those above the limit."""

    def __init__(self, limit: int, trusted: Sequence[Network], board: WorkerBoard) -> None:
        self._limit = limit
        self._trusted = trusted
        self._board = board
        self._own: Counter[str] = Counter()
        self._lingering = 0
        self._response = write_last(errors.too_many_connections(limit))
        self._trouble = TroubleLog(
            logger,
            f"%s has {limit} connections, the most that TAXIMETER_CLIENT_CONNECTIONS allows one client:"
            " further ones are refused",
        )

    def find_client(self, peer: str) -> str:
        """Return the client that a peer address belongs to, or ``""`` if its connections are not limited."""
        if peer.startswith("127."):
            return ""
        address = unmap(peer)
        try:
            is_unlimited = ip_address(address).is_loopback or is_in(address, self._trusted)
        except ValueError:  # no address of a network
            return ""
        return "" if is_unlimited else client_network(address)

    def enter(self, client: str) -> bool:
        """Count a new connection of a client; return False, without counting, if the limit is reached."""
        if not client:
            return True
        if self._own[client] + self._board.of_others_for(Shared.CONNECTIONS, client) >= self._limit:
            return False
        self._own[client] += 1
        self._board.add_for(Shared.CONNECTIONS, client, 1)
        return True

    def leave(self, client: str) -> None:
        """Subtract a connection of a client that has ended."""
        if not client:
            return
        self._board.add_for(Shared.CONNECTIONS, client, -1)
        self._own[client] -= 1
        if not self._own[client]:
            del self._own[client]

    def turn_away(self, connection: socket.socket, client: str) -> None:
        """Send 503 on a connection and close it, in the running event loop."""
        loop = asyncio.get_running_loop()
        self._board.add(Shared.CONNECTIONS_REFUSED, 1)
        self._trouble.report_at(loop.time(), client)
        with suppress(OSError):  # it has ended
            connection.setblocking(False)
            connection.send(self._response)
            connection.shutdown(socket.SHUT_WR)
            if self._lingering < MOST_LINGERING:
                self._lingering += 1
                loop.call_later(LINGER_S, self._close, connection)
                return
        connection.close()

    def _close(self, connection: socket.socket) -> None:
        self._lingering -= 1
        connection.close()
