"""Recording of spool files, one round after another.

A round takes a small batch of files for each organisation in turn, so that the backlog of one
delays another by no more than that. An organisation whose database is locked, full or corrupt waits
alone, and longer each time."""

import logging
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from recorder.background import BackgroundWork
from recorder.disk import DiskRoom
from recorder.entry_store import EntryStore
from recorder.open_databases import OpenDatabases
from recorder.pauses import Pauses
from recorder.rejection_store import RejectionStore
from recorder.reports import ReportStore
from store.spool import reader
from store.spool.format import REJECTIONS
from store.spool.reader import Waiting
from store.traces.bodies.bodies import RequestPreparer
from store.traces.paths import find_trace_files
from wire.conversation_memory import ConversationMemory

logger = logging.getLogger(__name__)

TIDY_S = 1.0


@dataclass(slots=True)
class Round:
    """The result of one round: files recorded or set aside, and files that still wait.

    ``has_more`` is true if some of these wait only for the next round."""

    handled: int = 0
    waiting: int = 0
    has_more: bool = False


class Ingester:
    """A recorder of the files that wait in the spool.

    ``clock_s`` is a monotonic clock in seconds; ``on_entries`` is called with entries that became rows;
    ``between`` is called after each file, for work that must not wait for the end of a round;
    ``make_work`` returns the background work on the databases that it is given."""

    def __init__(
        self,
        data_dir: Path,
        spool_root: Path,
        prices: Callable[[], PriceTable],
        disk: DiskRoom,
        clock_s: Callable[[], float],
        on_entries: Callable[[Sequence[UsageLogEntry]], None],
        between: Callable[[], None] = lambda: None,
        *,
        make_work: Callable[[OpenDatabases], Sequence[BackgroundWork]] = lambda _: (),
    ) -> None:
        self._data_dir = data_dir
        self._root = spool_root
        self._clock_s = clock_s
        self._disk = disk
        self._between = between
        self._memory = ConversationMemory()
        self._databases = OpenDatabases(data_dir, RequestPreparer(self._memory))
        self._pauses = Pauses(clock_s)
        self._entries = EntryStore(
            data_dir,
            spool_root,
            self._databases,
            self._memory,
            prices,
            disk,
            clock_s,
            on_entries,
            between,
        )
        self._work = make_work(self._databases)
        self._rejections = RejectionStore(data_dir, spool_root, self._databases)
        self._reports = ReportStore(spool_root, self._databases, prices, on_entries, between)
        self._tidy_at_s = clock_s()

    @property
    def stuck_organizations(self) -> int:
        """Return how many organisations wait because their database failed."""
        return len(self._pauses)

    def update_databases(self) -> None:
        """Bring every database to the newest schema, including those of inactive organisations.

        Pages and queries read the newest columns. A database that cannot be updated is tried again when a
        call is to be stored in it."""
        for path in find_trace_files(self._data_dir):
            organization_id = path.parent.name
            try:
                self._databases.open(organization_id)
            except (sqlite3.Error, OSError, ValueError) as error:
                logger.warning("%s cannot be updated now: %s", path, error)
            self._begin_to_read(organization_id)
            self._between()

    def work_in_background(self) -> bool:
        """Do one step of each background work; return whether any is left that need not wait."""
        is_left = False
        for each in self._work:
            if not (each.waits_for_room and self._disk.is_short):
                is_left |= each.run_step()
        return is_left

    def run_round(self) -> Round:
        """Store one batch for each organisation that need not wait."""
        result = Round()
        by_owner: defaultdict[str, list[Waiting]] = defaultdict(list)
        for waiting in reader.find_waiting(self._root):
            by_owner[waiting.owner].append(waiting)
        for owner, files in by_owner.items():
            result.waiting += len(files)
            if self._pauses.is_waiting(owner):
                continue
            try:
                handled = self._store(owner, files)
            except Exception as error:  # whatever it is, the others must not wait for it
                self._pauses.begin(owner, error)
                self._databases.close(owner)
                continue
            finally:
                self._between()
            self._pauses.end(owner)
            result.handled += handled
            result.waiting -= handled
            result.has_more |= handled < len(files)
        if self._clock_s() >= self._tidy_at_s:
            self._tidy()
        return result

    def close(self) -> None:
        """Remove empty folders from the spool, and close the databases."""
        self._tidy()
        for each in self._work:
            each.close()
        self._entries.close()
        self._databases.close_all()

    def _store(self, owner: str, files: Sequence[Waiting]) -> int:
        if owner == REJECTIONS:
            return self._rejections.store(files)
        reports = [each for each in files if each.is_report]
        calls = [each for each in files if not each.is_report]
        handled = self._reports.store(owner, reports) if reports else 0
        handled += self._entries.store(owner, calls) if calls else 0
        self._begin_to_read(owner)
        return handled

    def _begin_to_read(self, organization_id: str) -> None:
        """Begin the background work on the stored calls of an organisation."""
        for each in self._work:
            each.begin(organization_id)

    def _tidy(self) -> None:
        reader.remove_empty_runs(self._root)
        self._tidy_at_s = self._clock_s() + TIDY_S
