"""News of the traces of an organisation, for all pages that follow it.

While anybody listens, one task for each organisation looks three times a second whether its database has
changed, which costs two calls of ``stat``. Only after a change is the database read, over a connection
that is kept open anyway. Without listeners there is no task.
"""

import asyncio
import logging
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from dashboard.kept_connections import KeptConnections
from dashboard.live.in_flight import Flights, SpoolWatch
from store.traces.paths import Stamp, find_stamp, trace_path

LOOK_EVERY_S = 0.3
REMEMBERED = 1_000  # new calls whose session is known


logger = logging.getLogger(__name__)


class Feed:
    """The newest recorded call and the calls in flight of one organisation, with listeners that it wakes.

    ``last_id`` is the highest row id of a stored call."""

    def __init__(
        self, organization_id: str, path: Path, spool: SpoolWatch, connections: KeptConnections
    ) -> None:
        self.last_id = 0
        self.flights = Flights()
        self._organization_id = organization_id
        self._path = path
        self._spool = spool
        self._connections = connections
        self._recent: deque[tuple[int, str | None]] = deque(maxlen=REMEMBERED)
        self._stamp: Stamp = ()
        self._is_settled = self._has_looked = False
        self._listeners: set[asyncio.Event] = set()

    def add(self, listener: asyncio.Event) -> None:
        """Register an event to be set after each change, and now if a first look has been made."""
        self._listeners.add(listener)
        if self._has_looked:
            listener.set()

    def remove(self, listener: asyncio.Event) -> bool:
        """Remove a listener; return whether any are left."""
        self._listeners.discard(listener)
        return bool(self._listeners)

    def wake(self) -> None:
        for listener in self._listeners:
            listener.set()

    def has_new(self, after_id: int, session_id: str | None = None) -> bool:
        """Return whether calls were stored after ``after_id``, only of one session if it is given.

        For a session the result may be wrongly true if more than ``REMEMBERED`` calls were stored since,
        never wrongly false."""
        if self.last_id <= after_id or session_id is None:
            return self.last_id > after_id
        newer = [session for usage_id, session in self._recent if usage_id > after_id]
        oldest_known = self._recent[0][0] if self._recent else self.last_id + 1
        return oldest_known > after_id + 1 or session_id in newer

    async def look(self) -> None:
        """Look for changes, and wake the listeners if there are any. Raises sqlite3.Error."""
        flights = await self._spool.read(self._organization_id)
        is_new = not self._has_looked or flights != self.flights
        self.flights = flights
        stamp = find_stamp(self._path)
        # A file may change again within the same tick of its clock: look once more after a change.
        if stamp != self._stamp or not self._is_settled:
            self._is_settled = stamp == self._stamp
            self._stamp = stamp
            is_new |= await run_in_threadpool(self._read)
        self._has_looked = True
        if is_new:
            self.wake()

    def _read(self) -> bool:
        if not self._path.exists():
            return False
        with self._connections.lend(self._path) as db:
            if (
                db.execute("select 1 from sqlite_schema where name = 'usage_log'").fetchone()
                is None
            ):
                return False  # the recorder is making it
            if not self.last_id:
                found = db.execute("select coalesce(max(id), 0) from usage").fetchone()
                self.last_id = int(found[0])
                return self.last_id > 0
            rows = db.execute(
                "select id, session_id from usage where id > ? order by id desc limit ?",
                (self.last_id, REMEMBERED),
            ).fetchall()
        self._recent.extend(reversed(rows))
        self.last_id = rows[0][0] if rows else self.last_id
        return bool(rows)


class Feeds:
    """The feeds of all organisations that any page follows."""

    def __init__(self, data_dir: Path, spool: SpoolWatch, connections: KeptConnections) -> None:
        self._data_dir = data_dir
        self._spool = spool
        self._connections = connections
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}

    @contextmanager
    def listen(self, organization_id: str) -> Iterator[tuple[Feed, asyncio.Event]]:
        """Yield the feed of an organisation, and an event that is set after each change."""
        event = asyncio.Event()
        if organization_id not in self._feeds:
            path = trace_path(self._data_dir, organization_id)
            feed = Feed(organization_id, path, self._spool, self._connections)
            self._feeds[organization_id] = feed, asyncio.create_task(_follow(feed))
        feed, task = self._feeds[organization_id]
        feed.add(event)
        try:
            yield feed, event
        finally:
            if not feed.remove(event):
                task.cancel()
                del self._feeds[organization_id]

    @property
    def count(self) -> int:
        return len(self._feeds)


async def _follow(feed: Feed) -> None:
    failed = False
    while True:
        try:
            await feed.look()
            failed = False
        except sqlite3.Error as error:
            # The pages say the same when they are loaded; this tries again until it works.
            if not failed:
                logger.warning("Pages cannot follow new calls: %s", error)
            failed = True
        await asyncio.sleep(LOOK_EVERY_S)
