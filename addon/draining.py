"""Draining before the proxy stops: exchanges in flight may end, and nothing new begins."""

import asyncio
import time

from addon.core import connections
from addon.exchanges import Exchanges

LOOK_AGAIN_S = 0.02


class Draining:
    """Ends the connections of a proxy that stops. Once it ``has_begun``, each response is to be the
    last on its connection."""

    def __init__(self, patience_s: float) -> None:
        self.has_begun = False
        self._patience_s = patience_s

    async def drain(self, exchanges: Exchanges) -> None:
        """Stop listening, close connections as they become idle, and return when none is open.
        Return also when patience ends."""
        self.has_begun = True
        proxyserver = connections.get_proxyserver()
        for server in list(proxyserver.servers):
            if server.is_running:
                await server.stop()
        deadline_s = time.monotonic() + self._patience_s
        idle_before: set[tuple[object, ...] | str] = set()
        while proxyserver.connections and time.monotonic() < deadline_s:
            idle = {id_ for id_ in proxyserver.connections if not exchanges.is_awaited(id_)}
            # Right after an exchange ends, its last bytes are still to be written: look twice.
            for id_ in idle & idle_before:
                connections.close_client(proxyserver.connections[id_])
            idle_before = idle
            await asyncio.sleep(LOOK_AGAIN_S)
