"""How much one organisation may have asked for and not yet been answered.

What it asks for keeps its own requests waiting, and nobody else's.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

MAX_WAITING = 16  # requests of one organisation at once


class BusyError(Exception):
    """The organisation asks for more at once than it may."""


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(slots=True)
class Turns:
    """For each organisation one at a time. For the event loop's thread."""

    _turns: dict[str, _Turn] = field(default_factory=dict)

    @asynccontextmanager
    async def take(self, organization_id: str) -> AsyncIterator[None]:
        """Raises BusyError."""
        turn = self._turns.setdefault(organization_id, _Turn())
        if turn.users >= MAX_WAITING:
            raise BusyError
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[organization_id]
