"""Scheduling of requests so that quick ones never wait for slow ones.

The duration of a query is not known before it runs. So each begins in the quick lane, unless its
organisation had slow ones recently. If it has no response after a tenth of a second, it continues in the
slow lane if there is room, or is repeated there later. In each lane the organisation with the least
recent use comes first; in the quick lane waiting time is deducted from use, so that newcomers delay
nobody for long.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

QUICK_S = 0.1
SLOW_ABOVE_S = 1.0
HALF_LIFE_S = 30.0
USE_FORGIVEN = 10.0  # seconds of use for each second of waiting in the quick lane
_MAX_REMEMBERED = 1_000


@dataclass(slots=True, eq=False)
class Place:
    """The right of a request to be computed, until it is released."""

    organization_id: str
    is_slow: bool
    since_s: float
    is_held: bool = True


@dataclass(slots=True, eq=False)
class _Waiter:
    organization_id: str
    since_s: float
    got: asyncio.Future[Place]


@dataclass(slots=True)
class _Account:
    """The seconds of computing of an organisation, in total and in the slow lane. Half of them are
    forgotten in each ``HALF_LIFE_S``."""

    used_s: float = 0.0
    slow_s: float = 0.0
    at_s: float = 0.0

    def forget(self, now_s: float) -> None:
        left = 0.5 ** ((now_s - self.at_s) / HALF_LIFE_S)
        self.used_s *= left
        self.slow_s *= left
        self.at_s = now_s

    def charge(self, seconds: float, now_s: float, *, is_slow: bool) -> None:
        self.forget(now_s)
        self.used_s += seconds
        self.slow_s += seconds if is_slow else 0.0


@dataclass(slots=True)
class _Lane:
    free: int
    waiters: list[_Waiter] = field(default_factory=list)


class Lanes:
    """The quick and the slow lane, in which requests wait for their turn. ``count + 1`` requests are
    computed at once: at most ``count - 1`` of them (at least one) in the slow lane. ``clock_s`` is a
    monotonic clock. Use it from the event loop's thread only."""

    def __init__(self, count: int, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        slow = max(1, count - 1)
        self._lanes = {True: _Lane(slow), False: _Lane(count + 1 - slow)}
        self._accounts: dict[str, _Account] = {}

    async def acquire(self, organization_id: str, *, is_slow: bool = False) -> Place:
        """Wait for a place in one of the lanes.

        It is in the slow lane if ``is_slow``, or if the organisation recently spent more than
        ``SLOW_ABOVE_S`` there; otherwise in the quick lane."""
        is_slow = is_slow or self.is_slow(organization_id)
        lane = self._lanes[is_slow]
        if lane.free and not lane.waiters:
            return self._give(organization_id, is_slow)
        waiter = _Waiter(
            organization_id, self._clock_s(), asyncio.get_running_loop().create_future()
        )
        lane.waiters.append(waiter)
        try:
            return await waiter.got
        except asyncio.CancelledError:
            if waiter in lane.waiters:
                lane.waiters.remove(waiter)
            elif not waiter.got.cancelled():
                self.release(waiter.got.result())
            raise

    def release(self, place: Place) -> None:
        """Release a place and charge its organisation for the time; a second call does nothing."""
        if not place.is_held:
            return
        place.is_held = False
        now_s = self._clock_s()
        account = self._account(place.organization_id)
        account.charge(now_s - place.since_s, now_s, is_slow=place.is_slow)
        self._lanes[place.is_slow].free += 1
        self._serve(place.is_slow)

    def note_slow(self, place: Place) -> bool:
        """Move a request from the quick to the slow lane. Return False if that has no room now."""
        slow = self._lanes[True]
        if not slow.free or slow.waiters:
            return False
        slow.free -= 1
        place.is_slow = True
        self._lanes[False].free += 1
        self._serve(is_slow=False)
        return True

    def is_blocking_others(self, place: Place) -> bool:
        """Return whether an organisation with less recent use waits for a place in the quick lane."""
        now_s = self._clock_s()
        used_s = self._used_s(place.organization_id, now_s)
        waiters = self._lanes[False].waiters
        return any(self._used_s(each.organization_id, now_s) < used_s for each in waiters)

    def is_slow(self, organization_id: str) -> bool:
        """Return whether an organisation recently spent more than ``SLOW_ABOVE_S`` in the slow lane."""
        account = self._accounts.get(organization_id)
        if account is None:
            return False
        account.forget(self._clock_s())
        return account.slow_s > SLOW_ABOVE_S

    def _serve(self, is_slow: bool) -> None:
        lane, now_s = self._lanes[is_slow], self._clock_s()
        forgiven = 0.0 if is_slow else USE_FORGIVEN

        def rank(waiter: _Waiter) -> float:
            used_s = self._used_s(waiter.organization_id, now_s)
            return used_s - forgiven * (now_s - waiter.since_s)

        while lane.free and lane.waiters:
            waiter = min(lane.waiters, key=rank)
            lane.waiters.remove(waiter)
            if not waiter.got.done():
                waiter.got.set_result(self._give(waiter.organization_id, is_slow))

    def _give(self, organization_id: str, is_slow: bool) -> Place:
        self._lanes[is_slow].free -= 1
        return Place(organization_id, is_slow, self._clock_s())

    def _used_s(self, organization_id: str, now_s: float) -> float:
        account = self._account(organization_id)
        account.forget(now_s)
        return account.used_s

    def _account(self, organization_id: str) -> _Account:
        if len(self._accounts) >= _MAX_REMEMBERED:
            self._forget()
        return self._accounts.setdefault(organization_id, _Account())

    def _forget(self) -> None:
        now_s = self._clock_s()
        for organization_id, account in list(self._accounts.items()):
            account.forget(now_s)
            if account.used_s < QUICK_S:
                del self._accounts[organization_id]
