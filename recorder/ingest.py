"""From spool files to rows, one round after another.

A round takes a small batch of files for each organisation in turn, so that the backlog of one delays
another by no more than that. A batch is stored in one transaction and only then are its files
unlinked; a crash in between stores them again, which by entry id is a no-op. An organisation whose
database is locked, full or corrupt waits alone and longer each time. A file that cannot be made a row
is set aside and reported: nothing is deleted that was not stored, and nothing blocks what comes behind
it.

A batch is bounded by what it takes in memory, which is what the bodies decode to and not what came on
the wire. Where that is still too much, its files are taken one by one, and the one that does not fit
alone is set aside. Where the disk has no room for bodies, entries are stored without them.
"""

import errno
import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from metering.conversation_memory import ConversationMemory
from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from recorder.body_notes import Side, drop_body
from recorder.disk import DiskRoom
from recorder.record import make_entry
from recorder.requests import RequestReader
from store.spool import reader
from store.spool.format import REJECTIONS, Rejection, SpoolError
from store.spool.reader import Waiting
from store.traces.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import find_trace_files, trace_path

logger = logging.getLogger(__name__)

BATCH_FILES, BATCH_BYTES = 100, 8 * 1024 * 1024  # BATCH_BYTES: of decoded bodies
BATCH_S = 0.1  # bodies may take long to decode and yet be stored as they came
LARGE_FILE_BYTES = 1024 * 1024  # a smaller one is not what memory ran out for
MAX_OPEN_DATABASES = 64
TIDY_S = 1.0
# Not the file's fault, and over in a while.
_PASSING_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0

type Recorded = tuple[Waiting, UsageLogEntry]


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
    ``between`` is called after each file, for what must not wait for the end of a round."""

    def __init__(
        self,
        data_dir: Path,
        spool_root: Path,
        prices: Callable[[], PriceTable],
        disk: DiskRoom,
        clock_s: Callable[[], float],
        on_entries: Callable[[Sequence[UsageLogEntry]], None],
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._data_dir = data_dir
        self._root = spool_root
        self._prices = prices
        self._disk = disk
        self._clock_s = clock_s
        self._on_entries = on_entries
        self._between = between
        self._memory = ConversationMemory()
        self._requests = RequestReader(self._memory)
        self._preparer = RequestPreparer(self._memory)
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
        for waiting in reader.find_waiting(self._root):
            by_owner[waiting.owner].append(waiting)
        for owner, files in by_owner.items():
            result.waiting += len(files)
            pause = self._pauses.get(owner)
            if pause is not None and self._clock_s() < pause.until_s:
                continue
            try:
                store = self._store_rejections if owner == REJECTIONS else self._store_entries
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
        reader.remove_empty_runs(self._root)
        self._tidy_at_s = self._clock_s() + TIDY_S

    def _store_entries(self, organization_id: str, files: Sequence[Waiting]) -> int:
        """Store one batch of one organisation. Returns how many files are dealt with.

        Raises sqlite3.Error, OSError when the database cannot be written just now, MemoryError when
        there is no memory for anything; every file that was not stored is then still there."""
        taken: list[Waiting] = []
        try:
            self._store_batch(organization_id, files[:BATCH_FILES], taken)
        except MemoryError:
            logger.warning("A batch takes too much memory; its files are taken one by one")
        else:
            return len(taken)
        # Here, and not above: what the batch took is held by the traceback until its handler ends.
        self._forget_conversations()
        for waiting in taken:
            self._store_alone(organization_id, waiting)
            self._between()
        return len(taken)

    def _store_batch(
        self, organization_id: str, files: Sequence[Waiting], taken: list[Waiting]
    ) -> None:
        """Store as many of the files as a batch holds, and note each one as it is taken up."""
        batch: list[Recorded] = []
        size, ends_at_s = 0, self._clock_s() + BATCH_S
        for waiting in files:
            taken.append(waiting)
            entry = self._make_entry(waiting)
            self._between()
            if entry is not None:
                batch.append((waiting, entry))
                size += len(entry.request_body or b"") + len(entry.response_body or b"")
            if size >= BATCH_BYTES or self._clock_s() >= ends_at_s:
                break
        if batch:
            self._insert_all(organization_id, batch, size)

    def _store_alone(self, organization_id: str, waiting: Waiting) -> None:
        """Store one file, or set it aside when it does not fit into memory."""
        try:
            self._store_batch(organization_id, [waiting], [])
        except MemoryError:
            with suppress(FileNotFoundError):
                if waiting.path.stat().st_size < LARGE_FILE_BYTES:
                    raise
                self._set_aside(waiting, MemoryError("it does not fit into memory"))

    def _forget_conversations(self) -> None:
        """Give back the memory that only makes things faster."""
        self._memory.clear()
        for database in self._databases.values():
            database.close()
        self._databases.clear()

    def _insert_all(self, organization_id: str, batch: Sequence[Recorded], size: int) -> None:
        """Insert a batch with so many bytes of bodies. When the disk is full, what is left of it is
        for usage."""
        self._disk.measure()
        if not self._disk.admit(size):
            batch = [(waiting, self._fit(entry)) for waiting, entry in batch]
        while True:
            try:
                return self._insert(self._open(organization_id), batch)
            except (sqlite3.OperationalError, OSError) as error:
                if not self._disk.is_full(error) or not self._disk.make_room():
                    raise
            self._close(organization_id)  # with what it may have written in vain
            batch = [(waiting, _without_bodies(entry)) for waiting, entry in batch]

    def _insert(self, database: TraceDatabase, batch: Sequence[Recorded]) -> None:
        try:
            database.insert([entry for _, entry in batch])
        except MemoryError:
            raise
        except Exception as error:
            if _is_about_the_database(error):
                raise
            logger.warning("A batch cannot be stored (%s); its entries are tried one by one", error)
            self._insert_one_by_one(database, batch)
        else:
            self._settle(batch)

    def _fit(self, entry: UsageLogEntry) -> UsageLogEntry:
        """Return the entry without the bodies that the disk has no room for."""
        for side, body in _bodies(entry):
            if body and not self._disk.admit(len(body)):
                entry = drop_body(entry, side, "disk reserve")
        return entry

    def _insert_one_by_one(self, database: TraceDatabase, batch: Sequence[Recorded]) -> None:
        for waiting, entry in batch:
            try:
                database.insert([entry])
            except Exception as error:
                if _is_about_the_database(error):
                    raise
                self._set_aside(waiting, error)
            else:
                self._settle([(waiting, entry)])

    def _settle(self, batch: Sequence[Recorded]) -> None:
        """The rows are committed: their files may go."""
        for waiting, _ in batch:
            reader.remove(waiting)
        self._on_entries([entry for _, entry in batch])

    def _make_entry(self, waiting: Waiting) -> UsageLogEntry | None:
        """None when there is none to make: never forwarded (the file goes) or set aside."""
        try:
            exchange = reader.read_exchange(waiting.file)
            if exchange is None:
                reader.remove(waiting)
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
                rejections = reader.read_rejections(waiting.file)
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
                reader.remove(waiting)
        if failed is not None:
            raise failed
        return len(files)

    def _set_aside(self, waiting: Waiting, error: Exception) -> None:
        target = reader.set_aside(self._root, waiting.path)
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
        self._close(owner)

    def _close(self, organization_id: str) -> None:
        database = self._databases.pop(organization_id, None)
        if database is not None:
            database.close()

    def _resume(self, owner: str) -> None:
        if self._pauses.pop(owner, None) is not None:
            logger.warning("The traces of %s can be written again", owner)


def _bodies(entry: UsageLogEntry) -> tuple[tuple[Side, bytes | None], ...]:
    return ("request", entry.request_body), ("response", entry.response_body)


def _without_bodies(entry: UsageLogEntry) -> UsageLogEntry:
    for side, body in _bodies(entry):
        if body:
            entry = drop_body(entry, side, "disk full")
    return entry


def _is_about_the_database(error: Exception) -> bool:
    """Locked, full, corrupt: to be tried again. The other SQLite errors are about one row."""
    return (
        isinstance(error, (sqlite3.OperationalError, OSError))
        or type(error) is sqlite3.DatabaseError
    )
