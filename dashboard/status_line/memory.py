"""The statuses of sessions that clients show in a status line, with limits and budgets, in memory.

A status line is requested every few seconds and has a third of a second, whatever else the process does.
So its contents are read when a call was stored, and not when it is requested. Only the first request for
a session waits for a reading. Without requests for ``WANTED_S`` seconds, nothing is read.
"""

import asyncio
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from dashboard.kept_connections import KeptConnections
from dashboard.live.feeds import Feeds
from dashboard.visitors import ControlPool
from metering.status_line import BudgetLeft, SessionStatus, Status
from runtime import clock
from runtime.settings import Settings
from store.control import budgets
from store.control.database import ControlDatabase
from store.control.management import Management
from store.traces.calls.limit_readings import read_states
from store.traces.paths import trace_path
from store.traces.sessions.session_status import read_status

MAX_SESSIONS = 64
WANTED_S = 600.0  # after the last request for a session
REFRESH_S = 15.0  # of budgets, which others change, and of windows


class StatusMemory:
    """The statuses of sessions of the local organisation. ``clock_s`` is a monotonic clock."""

    def __init__(
        self,
        settings: Settings,
        pool: ControlPool,
        connections: KeptConnections,
        feeds: Feeds,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._pool = pool
        self._connections = connections
        self._feeds = feeds
        self._clock_s = clock_s
        self._wanted: OrderedDict[str, float] = (
            OrderedDict()
        )  # sessions by when they were requested
        self._known: dict[str, Status] = {}
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    async def get(self, session_id: str) -> Status:
        """Return the status of a session; if it has no calls, only limits and budgets of its organisation.

        Raises sqlite3.Error, NotFoundError at the first request for a session."""
        self._wanted[session_id] = self._clock_s()
        self._wanted.move_to_end(session_id)
        while len(self._wanted) > MAX_SESSIONS:
            forgotten, _ = self._wanted.popitem(last=False)
            self._known.pop(forgotten, None)
        if session_id not in self._known:
            await self._read([session_id])
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        return self._known.get(session_id, Status(session=None))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Stop following new calls at the end of the block."""
        try:
            yield
        finally:
            if self._task is not None:
                self._task.cancel()

    async def _follow(self) -> None:
        organization_id = await self._pool.run(_find_organization)
        with self._feeds.listen(organization_id) as (feed, something_new):
            last_id = -1
            while self._forget_old():
                is_due = True
                with suppress(TimeoutError):
                    await asyncio.wait_for(something_new.wait(), REFRESH_S)
                    is_due = feed.last_id != last_id  # else it is about calls in flight
                something_new.clear()
                if is_due:
                    last_id = feed.last_id
                    with suppress(sqlite3.Error):  # pages report it; the next look tries again
                        await self._read(list(self._wanted))

    def _forget_old(self) -> bool:
        """Forget the sessions without a request in the last ``WANTED_S`` seconds. Return whether any are
        left."""
        since = self._clock_s() - WANTED_S
        for session_id in [each for each, at in self._wanted.items() if at < since]:
            del self._wanted[session_id]
            self._known.pop(session_id, None)
        return bool(self._wanted)

    async def _read(self, session_ids: Sequence[str]) -> None:
        async with self._reading:
            found = await self._pool.run(lambda control: self._read_all(control, session_ids))
        self._known.update((id_, each) for id_, each in found.items() if id_ in self._wanted)

    def _read_all(self, control: ControlDatabase, session_ids: Sequence[str]) -> dict[str, Status]:
        organization_id = _find_organization(control)
        left = _read_budgets(Management.make(control, self._settings), control, organization_id)
        path = trace_path(self._settings.data_dir, organization_id)
        if not path.exists():
            return {each: Status(session=None, budgets=left) for each in session_ids}
        with self._connections.lend(path) as connection:
            windows = read_states(connection, clock.now())
            own = [each for each in windows if each.account == windows[0].account]
            sessions: dict[str, SessionStatus | None] = {
                each: read_status(connection, each) for each in session_ids
            }
        return {
            id_: Status(session=session, windows=own, budgets=left)
            for id_, session in sessions.items()
        }


def _find_organization(control: ControlDatabase) -> str:
    return control.get_local_organization().id


def _read_budgets(
    management: Management, control: ControlDatabase, organization_id: str
) -> list[BudgetLeft]:
    with control.reading() as db:
        # Whether a budget of some user, project or tag is about a session is not known.
        found = [each for each in budgets.list_after(db, organization_id) if each.of is None]
    return [
        BudgetLeft(
            slug=status.budget.slug,
            left_cents=100 * (status.budget.limit_usd - status.spent_usd),
            when="today" if status.budget.period == "day" else f"this {status.budget.period}",
        )
        for status in management.budgets.read_statuses(found, tolerant=True)
        if status.spend is not None
    ]
