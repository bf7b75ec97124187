"""A lock for each organisation, with a bounded queue.

Requests of an organisation wait only for each other."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field

MAX_WAITING = 16  # requests of one organisation at once


class BusyError(Exception):
    """The organisation has too many requests in progress."""


@dataclass(slots=True)
class _Lock:
    inner: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(slots=True)
class OrganizationLocks:
    """One lock for each organisation, to be used in the thread of the event loop.

    At most ``max_users`` requests of an organisation hold its lock or wait for it."""

    max_users: int = MAX_WAITING
    _locks: dict[str, _Lock] = field(default_factory=dict)

    @asynccontextmanager
    async def acquire(
        self, organization_id: str, within_s: float | None = None
    ) -> AsyncIterator[Callable[[], None]]:
        """Hold the lock of an organisation until the block ends or the yielded function is called.

        Raises BusyError if too many wait, or if the lock is not free ``within_s``."""
        lock = self._locks.setdefault(organization_id, _Lock())
        if lock.users >= self.max_users:
            raise BusyError
        lock.users += 1
        with ExitStack() as leaving:
            leaving.callback(self._leave, organization_id, lock)
            try:
                async with asyncio.timeout(within_s):
                    await lock.inner.acquire()
            except TimeoutError as error:
                raise BusyError from error
            leaving.callback(lock.inner.release)
            yield leaving.close

    def _leave(self, organization_id: str, lock: _Lock) -> None:
        lock.users -= 1
        if not lock.users:
            del self._locks[organization_id]
