"""Work on recorded calls that the recorder does in steps while it would otherwise wait.

While calls wait, one step is done each second, so that no call is recorded later for it. An
organisation whose database is locked, corrupt or on a full disk waits alone, and is tried again
later."""

import logging
import sqlite3
from collections.abc import Callable

from recorder.open_databases import OpenDatabases

logger = logging.getLogger(__name__)

RETRY_S = 60.0

# Does a little of the work of an organisation in its database, and returns whether there is more.
type DoSome = Callable[[str, sqlite3.Connection], bool]


class BackgroundWork:
    """The remaining work of one kind, by organisation.

    ``waits_for_room``: the work adds to stored data and can be done later, so on a full disk it is not
    done and leaves the reserve to calls."""

    waits_for_room = True

    def __init__(
        self,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
        do_some: DoSome,
        failure: str,
        *,
        pause_s: float = 0.0,
        alternates: bool = True,
        makes_databases: bool = False,
    ) -> None:
        """Do work in these databases. ``clock_s`` is a monotonic clock in seconds.

        ``failure`` is the log line for a failure, with places for the organisation and the error.
        ``pause_s`` is the time from ``begin`` to the first step. ``alternates``: organisations take
        turns, otherwise each is finished before the next. ``makes_databases``: a missing database is
        created, otherwise work on it ends."""
        self._databases = databases
        self._clock_s = clock_s
        self._do_some = do_some
        self._failure = failure
        self._pause_s = pause_s
        self._alternates = alternates
        self._makes_databases = makes_databases
        self._due_s: dict[str, float] = {}  # by organisation: not before this time

    def begin(self, organization_id: str) -> None:
        """Add an organisation to those that may have work. Its first step finds out whether there is any."""
        self._due_s.setdefault(organization_id, self._clock_s() + self._pause_s)

    def run_step(self) -> bool:
        """Do one step for the first organisation that need not wait. Return whether any work is left.

        Never raises: a step that fails is tried again later."""
        now_s = self._clock_s()
        ready = (each for each, due_s in self._due_s.items() if now_s >= due_s)
        organization_id = next(ready, None)
        if organization_id is None:
            return bool(self._due_s)
        if not self._makes_databases and not self._databases.is_there(organization_id):
            del self._due_s[organization_id]  # it was moved to another node, say
            return bool(self._due_s)
        try:
            connection = self._databases.open(organization_id).connection
            has_more = self._do_some(organization_id, connection)
        except Exception as error:
            # Recording goes on, whatever it is. Most likely the database is locked or the disk full for now.
            is_usual = isinstance(error, (sqlite3.Error, OSError, ValueError))
            logger.warning(self._failure, organization_id, error, exc_info=not is_usual)
            self._databases.close(organization_id)
            self._due_s[organization_id] = self._clock_s() + RETRY_S
            return True
        if self._alternates or not has_more:
            del self._due_s[organization_id]
        if has_more:
            self._due_s[organization_id] = now_s
        return bool(self._due_s)

    def close(self) -> None:
        """Close resources of the work. Unfinished work continues after the next start."""
