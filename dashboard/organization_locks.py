"""How much one organisation may have asked for and not yet been answered.

What it asks for keeps its own requests waiting, and nobody else's.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
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
    async def take(
        self, organization_id: str, within_s: float | None = None
    ) -> AsyncIterator[Callable[[], None]]:
        """Have a turn until the end of the block, or until what it yields is called.

        Raises BusyError, also when it has not come within that time."""
        turn = self._turns.setdefault(organization_id, _Turn())
        if turn.users >= MAX_WAITING:
            raise BusyError
        turn.users += 1
        with ExitStack() as leaving:
            leaving.callback(self._leave, organization_id, turn)
            try:
                async with asyncio.timeout(within_s):
                    await turn.lock.acquire()
            except TimeoutError as error:
                raise BusyError from error
            leaving.callback(turn.lock.release)
            yield leaving.close

    def _leave(self, organization_id: str, turn: _Turn) -> None:
        turn.users -= 1
        if not turn.users:
            del self._turns[organization_id]
