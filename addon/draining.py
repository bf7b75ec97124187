"""Draining before a worker stops: current exchanges may end, and no new one begins.

A worker that a successor has replaced has no deadline: each exchange may end, and an idle connection
stays open for a while, since its client may send a request just when it is closed."""

import asyncio
import time

from addon.core import connections
from addon.exchanges import Exchanges

LOOK_AGAIN_S, LOOK_SELDOM_S = 0.02, 0.25


class Draining:
    """Ends the connections of a proxy that stops.

    Once it ``has_begun``, each response has to be the last on its connection."""

    def __init__(self, patience_s: float) -> None:
        """Give exchanges ``patience_s`` in a hurry, and idle connections ``patience_s`` without a hurry."""
        self.has_begun = False
        self._patience_s = patience_s
        self._deadline_s: float | None = None  # None: exchanges may take as long as they need
        self._has_successor = False

    def hand_over(self) -> None:
        """Note that a successor accepts connections, so exchanges have no deadline. To be called before
        ``drain``."""
        self._has_successor = True

    def hurry(self) -> None:
        """Set the deadline to ``patience_s`` from now, and have idle connections closed at once."""
        if self._deadline_s is None:
            self._deadline_s = time.monotonic() + self._patience_s

    async def drain(self, exchanges: Exchanges) -> None:
        """Stop listening, close connections as they become idle, and return when none is open.

        Also returns when the deadline has passed."""
        self.has_begun = True
        if not self._has_successor:
            self.hurry()
        proxyserver = connections.get_proxyserver()
        for server in list(proxyserver.servers):
            if server.is_running:
                await server.stop()
        idle_since_s: dict[tuple[object, ...] | str, float] = {}
        await asyncio.sleep(LOOK_AGAIN_S)  # the last ones accepted may not be known yet
        while proxyserver.connections:
            now_s = time.monotonic()
            if self._deadline_s is not None and now_s >= self._deadline_s:
                return
            is_hurried = self._deadline_s is not None
            idle = {id_ for id_ in proxyserver.connections if not exchanges.is_awaited(id_)}
            # Right after an exchange ends, its last bytes are still to be written: look twice.
            for id_ in idle & idle_since_s.keys():
                if is_hurried or now_s - idle_since_s[id_] >= self._patience_s:
                    connections.close_client(proxyserver.connections[id_])
            idle_since_s = {id_: idle_since_s.get(id_, now_s) for id_ in idle}
            await asyncio.sleep(LOOK_AGAIN_S if is_hurried else LOOK_SELDOM_S)
