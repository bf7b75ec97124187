"""Storing of spool files as entries, one batch of one organisation after another.

A batch is stored in one transaction and only then are its files removed; after a crash in between
they are stored again, which changes nothing, because entries are known by id. A file that cannot be
made a row is set aside and reported: no file is deleted that was not stored, and no file blocks
later ones.

A batch is bounded by its size in memory, which is that of decoded bodies and not that on the wire.
If that is still too much, its files are processed one by one, and a file that does not fit alone is
set aside. If the disk has no room for bodies, entries are stored without them."""

import errno
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import batched
from pathlib import Path

from metering.body_notes import Side, drop_body
from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from recorder.disk import DiskRoom
from recorder.judge import Judge
from recorder.open_databases import OpenDatabases
from recorder.output_sizes import RecordedSizes
from recorder.record import make_recorded
from recorder.recorded_calls import RecordedCall
from recorder.requests import RequestReader
from recorder.run_attributes import RunAttributes
from recorder.setting_aside import set_aside
from store.spool import reader
from store.spool.format import SpoolError
from store.spool.reader import Waiting
from store.traces.calls.judgements import Judgement
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from wire.conversation_memory import ConversationMemory

logger = logging.getLogger(__name__)

# BATCH_BYTES: of decoded bodies. To store a batch takes as long as five calls, whatever is in it: so it has
# all small ones that a busy worker brings between two rounds.
BATCH_FILES, BATCH_BYTES = 250, 8 * 1024 * 1024
# So many are read and then judged: code that runs again and again finds itself in the processor's cache.
FILES_AT_ONCE = 16
BATCH_S = 0.1  # bodies may take long to decode and yet be stored as they came
LARGE_FILE_BYTES = 1024 * 1024  # a smaller one is not what memory ran out for
MEMORY_TRIES = 8  # in some half a minute, as pauses grow: memory may be short for a while
# Not the file's fault, and over in a while.
_PASSING_ERRORS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})

type Recorded = tuple[Waiting, UsageLogEntry]


class EntryStore:
    """A writer of the calls of one organisation at a time.

    For the arguments see ``Ingester``; ``memory`` is shared by reading and cutting."""

    def __init__(
        self,
        data_dir: Path,
        spool_root: Path,
        databases: OpenDatabases,
        memory: ConversationMemory,
        prices: Callable[[], PriceTable],
        disk: DiskRoom,
        clock_s: Callable[[], float],
        on_entries: Callable[[Sequence[UsageLogEntry]], None],
        between: Callable[[], None],
    ) -> None:
        self._data_dir = data_dir
        self._root = spool_root
        self._databases = databases
        self._memory = memory
        self._requests = RequestReader(memory)
        self._sizes = RecordedSizes(databases)
        self._judge = Judge(prices, self._requests)
        self._prices = prices
        self._runs = RunAttributes(data_dir / "control.db")
        self._disk = disk
        self._clock_s = clock_s
        self._on_entries = on_entries
        self._between = between
        self._misfits = Counter[str]()

    def store(self, organization_id: str, files: Sequence[Waiting]) -> int:
        """Store one batch of one organisation. Returns how many files were stored or set aside.

        Raises sqlite3.Error or OSError if the database cannot be written now, MemoryError if there is no
        memory for a file; every file that was not stored is then still there."""
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

    def close(self) -> None:
        """Close ``control.db``."""
        self._runs.close()

    def _store_batch(
        self, organization_id: str, files: Sequence[Waiting], taken: list[Waiting]
    ) -> None:
        """Store as many of the files as a batch allows, and add each processed one to ``taken``."""

        @cache  # nearly every call asks for it
        def connect() -> sqlite3.Connection:
            return self._databases.open(organization_id).connection

        batch: list[Recorded] = []
        judged: list[Judgement] = []
        self._judge.forget_batch()
        size, ends_at_s = 0, self._clock_s() + BATCH_S
        is_full = False
        for some in batched(files, FILES_AT_ONCE):
            calls: list[RecordedCall] = []
            for waiting in some:
                taken.append(waiting)
                call = self._make_recorded(waiting)
                self._between()
                if call is not None:
                    entry = call.entry
                    calls.append(call)
                    batch.append((waiting, entry))
                    size += len(entry.request_body or b"") + len(entry.response_body or b"")
                is_full = size >= BATCH_BYTES or self._clock_s() >= ends_at_s
                if is_full:
                    break
            for call in calls:
                judged += self._judge.judge(organization_id, call, connect)
                self._between()
            if is_full or self._clock_s() >= ends_at_s:
                break
        if batch:
            self._insert_all(organization_id, batch, judged, size)
        # Its bodies may be large, and the next batch may be long in coming.
        self._judge.forget_batch()
        self._memory.forget_batch()

    def _store_alone(self, organization_id: str, waiting: Waiting) -> None:
        """Store one file, or set it aside if it repeatedly does not fit into memory.

        Raises MemoryError until then."""
        try:
            self._store_batch(organization_id, [waiting], [])
        except MemoryError:
            self._misfits[waiting.entry_id] += 1
            with suppress(FileNotFoundError):
                is_small = waiting.path.stat().st_size < LARGE_FILE_BYTES
                if is_small or self._misfits[waiting.entry_id] < MEMORY_TRIES:
                    raise
                set_aside(self._root, waiting, MemoryError("it does not fit into memory"))
        self._misfits.pop(waiting.entry_id, None)

    def _forget_conversations(self) -> None:
        """Free the memory that only saves time."""
        self._memory.clear()
        self._judge.forget()
        self._databases.close_all()

    def _insert_all(
        self,
        organization_id: str,
        batch: Sequence[Recorded],
        judged: Sequence[Judgement],
        size: int,
    ) -> None:
        """Insert a batch and the judgements of its calls. ``size`` is that of the bodies in bytes.

        If the disk does not have room for all, bodies are left out, so that usage is stored."""
        self._disk.measure()
        if not self._disk.admit(size):
            batch = [(waiting, self._fit(entry)) for waiting, entry in batch]
        while True:
            try:
                return self._insert(self._databases.open(organization_id), batch, judged)
            except (sqlite3.OperationalError, OSError) as error:
                if not self._disk.is_full(error) or not self._disk.make_room():
                    raise
            self._databases.close(organization_id)  # with what it may have written in vain
            batch = [(waiting, _without_bodies(entry)) for waiting, entry in batch]

    def _insert(
        self, database: TraceDatabase, batch: Sequence[Recorded], judged: Sequence[Judgement]
    ) -> None:
        try:
            database.insert([entry for _, entry in batch], judged)
        except MemoryError:
            raise
        except Exception as error:
            if _is_about_the_database(error):
                raise
            logger.warning("A batch cannot be stored (%s); its entries are tried one by one", error)
            self._insert_one_by_one(database, batch, judged)
        else:
            self._settle(batch)

    def _fit(self, entry: UsageLogEntry) -> UsageLogEntry:
        """Return the entry without the bodies for which the disk has no room."""
        for side, body in _bodies(entry):
            if body and not self._disk.admit(len(body)):
                entry = drop_body(entry, side, "disk reserve")
        return entry

    def _insert_one_by_one(
        self, database: TraceDatabase, batch: Sequence[Recorded], judged: Sequence[Judgement]
    ) -> None:
        for waiting, entry in batch:
            try:
                database.insert([entry], judged)  # those of others are of no effect, or done again
            except Exception as error:
                if _is_about_the_database(error):
                    raise
                set_aside(self._root, waiting, error)
            else:
                self._settle([(waiting, entry)])

    def _settle(self, batch: Sequence[Recorded]) -> None:
        """Remove the files of committed entries."""
        reader.remove(waiting for waiting, _ in batch)
        self._on_entries([entry for _, entry in batch])

    def _make_recorded(self, waiting: Waiting) -> RecordedCall | None:
        """Return the call of a file, or None.

        None means that it was never forwarded and its file is deleted, or that it is set aside."""
        try:
            exchange = reader.read_exchange(waiting.file)
            if exchange is None:
                reader.remove([waiting])
                return None
            trace_path(self._data_dir, waiting.owner)
            if exchange.head.organization_id != waiting.owner:
                raise SpoolError("its name and its head disagree about the organisation")  # noqa: TRY301
            self._runs.complete(exchange.head)
            return make_recorded(exchange, self._prices(), self._requests, self._sizes)
        except FileNotFoundError:  # somebody took it away since it was listed
            return None
        except MemoryError:
            raise
        except Exception as error:  # whatever is wrong with this one, the next ones must not wait
            if isinstance(error, OSError) and error.errno in _PASSING_ERRORS:
                raise
            set_aside(self._root, waiting, error)
            return None


def _bodies(entry: UsageLogEntry) -> tuple[tuple[Side, bytes | None], ...]:
    return ("request", entry.request_body), ("response", entry.response_body)


def _without_bodies(entry: UsageLogEntry) -> UsageLogEntry:
    for side, body in _bodies(entry):
        if body:
            entry = drop_body(entry, side, "disk full")
    return entry


def _is_about_the_database(error: Exception) -> bool:
    """Return whether an error concerns the database (locked, full, corrupt) and not one row."""
    return (
        isinstance(error, (sqlite3.OperationalError, OSError))
        or type(error) is sqlite3.DatabaseError
    )
