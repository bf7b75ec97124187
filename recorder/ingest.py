"""From spool files to rows, one round after another.

A round takes up to a batch of files for each organisation, stores them in one transaction and only
then unlinks them; a crash in between stores them again, which by entry id is a no-op. An
organisation whose database is locked, full or corrupt waits alone and longer each time. A file that
cannot be made a row is set aside and reported: nothing is deleted that was not stored, and nothing
blocks what comes behind it.
"""

import errno
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recorder.prices import PriceTable
from recorder.record import make_entry
from recorder.requests import RequestReader
from store import spool
from store.bodies import RequestPreparer
from store.entry import UsageLogEntry
from store.spool import Rejection, SpoolError, Waiting
from store.traces import TraceDatabase, find_trace_files, trace_path

logger = logging.getLogger(__name__)

BATCH_FILES, BATCH_BYTES = 100, 32 * 1024 * 1024
MAX_OPEN_DATABASES = 64
TIDY_S = 1.0
# Not the file's fault, and over in a while.
_PASSING_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0


@dataclass(slots=True)
class Pause:
    """An organisation that has to wait, and until when (monotonic seconds)."""

    until_s: float
    length_s: float


@dataclass(slots=True)
class Round:
    """What one round did: files dealt with, and files that still wait. ``has_more`` is true when
    some of these wait for nothing but the next round."""

    handled: int = 0
    waiting: int = 0
    has_more: bool = False


class Ingester:
    """``clock_s`` is a monotonic clock; ``on_entries`` is told of entries that became rows;
    ``between`` is called between organisations, for what must not wait for the end of a round."""

    def __init__(
        self,
        data_dir: Path,
        spool_root: Path,
        prices: Callable[[], PriceTable],
        clock_s: Callable[[], float],
        on_entries: Callable[[Sequence[UsageLogEntry]], None],
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._data_dir = data_dir
        self._root = spool_root
        self._prices = prices
        self._clock_s = clock_s
        self._on_entries = on_entries
        self._between = between
        self._requests = RequestReader()
        self._preparer = RequestPreparer()
        self._databases: dict[str, TraceDatabase] = {}
        self._pauses: dict[str, Pause] = {}
        self._tidy_at_s = clock_s()

    @property
    def stuck_organizations(self) -> int:
        return len(self._pauses)

    def update_databases(self) -> None:
        """Bring every database to the newest schema, also of organisations that record nothing now:
        pages and queries ask for its columns. One that cannot be updated is tried again when a call
        is to be stored in it."""
        for path in find_trace_files(self._data_dir):
            try:
                self._open(path.parent.name)
            except (sqlite3.Error, OSError, ValueError) as error:
                logger.warning("%s cannot be updated now: %s", path, error)
            self._between()

    def run_round(self) -> Round:
        result = Round()
        by_owner: defaultdict[str, list[Waiting]] = defaultdict(list)
        for waiting in spool.find_waiting(self._root):
            by_owner[waiting.owner].append(waiting)
        for owner, files in by_owner.items():
            result.waiting += len(files)
            pause = self._pauses.get(owner)
            if pause is not None and self._clock_s() < pause.until_s:
                continue
            try:
                store = self._store_rejections if owner == spool.REJECTIONS else self._store_entries
                handled = store(owner, files)
            except Exception as error:  # whatever it is, the others must not wait for it
                self._pause(owner, error)
                continue
            finally:
                self._between()
            self._resume(owner)
            result.handled += handled
            result.waiting -= handled
            result.has_more |= handled < len(files)
        if self._clock_s() >= self._tidy_at_s:
            self._tidy()
        return result

    def close(self) -> None:
        self._tidy()
        for database in self._databases.values():
            database.close()
        self._databases.clear()

    def _tidy(self) -> None:
        spool.remove_empty_runs(self._root)
        self._tidy_at_s = self._clock_s() + TIDY_S

    def _store_entries(self, organization_id: str, files: Sequence[Waiting]) -> int:
        """One batch of one organisation. Returns how many files are dealt with.

        Raises sqlite3.Error, OSError when the database cannot be written just now; every file that
        was not stored is then still there."""
        batch: list[tuple[Waiting, UsageLogEntry]] = []
        handled = size = 0
        for waiting in files[:BATCH_FILES]:
            entry = self._make_entry(waiting)
            handled += 1
            if entry is not None:
                batch.append((waiting, entry))
                size += (entry.request_bytes or 0) + (entry.response_bytes or 0)
            if size >= BATCH_BYTES:
                break
        if batch:
            self._insert(self._open(organization_id), batch)
        return handled

    def _insert(
        self, database: TraceDatabase, batch: Sequence[tuple[Waiting, UsageLogEntry]]
    ) -> None:
        try:
            database.insert([entry for _, entry in batch])
        except Exception as error:
            if _is_about_the_database(error):
                raise
            logger.warning("A batch cannot be stored (%s); its entries are tried one by one", error)
            self._insert_one_by_one(database, batch)
        else:
            self._settle(batch)

    def _insert_one_by_one(
        self, database: TraceDatabase, batch: Sequence[tuple[Waiting, UsageLogEntry]]
    ) -> None:
        for waiting, entry in batch:
            try:
                database.insert([entry])
            except Exception as error:
                if _is_about_the_database(error):
                    raise
                self._set_aside(waiting, error)
            else:
                self._settle([(waiting, entry)])

    def _settle(self, batch: Sequence[tuple[Waiting, UsageLogEntry]]) -> None:
        """The rows are committed: their files may go."""
        for waiting, _ in batch:
            spool.remove(waiting)
        self._on_entries([entry for _, entry in batch])

    def _make_entry(self, waiting: Waiting) -> UsageLogEntry | None:
        """None when there is none to make: never forwarded (the file goes) or set aside."""
        try:
            exchange = spool.read_exchange(waiting.file)
            if exchange is None:
                spool.remove(waiting)
                return None
            trace_path(self._data_dir, waiting.owner)
            if exchange.head.organization_id != waiting.owner:
                raise SpoolError("its name and its head disagree about the organisation")  # noqa: TRY301
            return make_entry(exchange, self._prices(), self._requests)
        except FileNotFoundError:  # somebody took it away since it was listed
            return None
        except MemoryError:
            raise
        except Exception as error:  # whatever is wrong with this one, the next ones must not wait
            if isinstance(error, OSError) and error.errno in _PASSING_ERRORS:
                raise
            self._set_aside(waiting, error)
            return None

    def _store_rejections(self, _owner: str, files: Sequence[Waiting]) -> int:
        """Raises the first error there was, when all that can be stored is stored."""
        failed: Exception | None = None
        for waiting in files:
            try:
                rejections = spool.read_rejections(waiting.file)
                for rejection in rejections:
                    trace_path(self._data_dir, rejection.organization_id)
            except (SpoolError, ValueError, OSError) as error:
                self._set_aside(waiting, error)
                continue
            by_organization: defaultdict[str, list[Rejection]] = defaultdict(list)
            for rejection in rejections:
                by_organization[rejection.organization_id].append(rejection)
            failures = []
            for organization_id, theirs in by_organization.items():
                try:
                    self._open(organization_id).insert_rejections(waiting.entry_id, theirs)
                except (sqlite3.Error, OSError) as error:
                    failures.append(error)
            if failures:
                failed = failed or failures[0]
            else:
                spool.remove(waiting)
        if failed is not None:
            raise failed
        return len(files)

    def _set_aside(self, waiting: Waiting, error: Exception) -> None:
        target = spool.set_aside(self._root, waiting.path)
        logger.error("A spool file cannot be recorded (%s); it is kept as %s", error, target)

    def _open(self, organization_id: str) -> TraceDatabase:
        path = trace_path(self._data_dir, organization_id)
        database = self._databases.pop(organization_id, None)
        if (
            database is not None and not path.exists()
        ):  # removed under us: do not write into nowhere
            database.close()
            database = None
        if database is None:
            database = TraceDatabase(path, preparer=self._preparer)
        self._databases[organization_id] = database  # the last is the most recently used
        while len(self._databases) > MAX_OPEN_DATABASES:
            self._databases.pop(next(iter(self._databases))).close()
        return database

    def _pause(self, owner: str, error: Exception) -> None:
        pause = self._pauses.get(owner)
        if pause is None:
            logger.error(
                "The traces of %s cannot be written (%s); its calls wait in the spool", owner, error
            )
        length_s = FIRST_PAUSE_S if pause is None else min(pause.length_s * 2, LONGEST_PAUSE_S)
        self._pauses[owner] = Pause(self._clock_s() + length_s, length_s)
        database = self._databases.pop(owner, None)
        if database is not None:
            database.close()

    def _resume(self, owner: str) -> None:
        if self._pauses.pop(owner, None) is not None:
            logger.warning("The traces of %s can be written again", owner)


def _is_about_the_database(error: Exception) -> bool:
    """Locked, full, corrupt: to be tried again. The other SQLite errors are about one row."""
    return (
        isinstance(error, (sqlite3.OperationalError, OSError))
        or type(error) is sqlite3.DatabaseError
    )
