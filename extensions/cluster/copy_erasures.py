"""Carrying out erasures in a copy of which this machine keeps a part.

It does what a single machine does, and continues to check recorded calls until the node with the pages
ends the order: only that node knows whether calls from before the order can still arrive."""

from collections.abc import Sequence
from pathlib import Path

from extensions.cluster import erasure_copies
from extensions.cluster.erasure_copies import ErasureCopy
from extensions.cluster.page_nodes import read_node
from runtime import clock
from store import erasure_work
from store.control.database import ControlDatabase
from store.control.erasures import Erasure
from store.traces.database import TraceDatabase
from store.traces.maintenance import erasing
from store.traces.paths import trace_path
from store.traces.steps import Steps


class CopyErasureWork:
    """Carries out erasures in the copy of this machine. See ``store.erasure_work.ErasureWork``."""

    # A node has the orders of all organisations, and looks after those of which it has calls.
    makes_databases = False

    def __init__(self, data_dir: Path, spool_path: Path, copy: str) -> None:
        self._data_dir = data_dir
        self._spool_path = spool_path
        self._copy = copy
        self._looked_at: dict[str, int] = {}  # by order, up to which call

    def note_orders(self, orders: Sequence[Erasure], control: ControlDatabase) -> None:
        """Record as done here the orders of organisations that have no calls here.

        Raises sqlite3.Error, OSError."""
        for erasure in orders:
            path = trace_path(self._data_dir, erasure.organization_id)
            if not path.exists() and (state := self._read_state(erasure, control)) is not None:
                self._note_nothing(erasure, state, control, path)

    def find_work(
        self, erasure: Erasure, control: ControlDatabase, traces: TraceDatabase
    ) -> Steps[None] | None:
        """Return the next work on an order, None if there is none now. Raises sqlite3.Error, OSError."""
        state = self._read_state(erasure, control)
        if state is None:
            return None
        newest = erasing.find_newest(traces.connection)
        after = self._looked_at.get(erasure.id, 0)
        if (
            newest <= after
            and not _is_unfinished(state, traces)
            and not self._is_settling(erasure, state)
        ):
            return None

        def work() -> Steps[None]:
            yield from self._carry_out(erasure, state, control, traces, after=after)
            self._looked_at[erasure.id] = newest

        return work()

    def _read_state(self, erasure: Erasure, control: ControlDatabase) -> ErasureCopy | None:
        """Return the state of an order on this node, None if the node has no id yet."""
        node = read_node(self._data_dir)
        if node is None:
            return None
        with control.reading() as db:
            return erasure_copies.find(db, erasure.id, node, self._copy)

    def _carry_out(
        self,
        erasure: Erasure,
        state: ErasureCopy,
        control: ControlDatabase,
        traces: TraceDatabase,
        *,
        after: int,
    ) -> Steps[None]:
        """Erase recorded calls, and store the progress. Calls with ids up to ``after`` were checked before.

        Raises sqlite3.Error, OSError; then it has to be repeated."""
        criteria = erasure.find_criteria()
        if criteria is None:
            return
        # Before calls are looked for: what is recorded meanwhile is found.
        is_settling = self._is_settling(erasure, state)
        is_unfinished = _is_unfinished(state, traces)
        looked_at = 0 if is_settling or is_unfinished else after
        found = yield from erasing.find_calls(traces.connection, criteria, looked_at)
        if found or is_unfinished:
            entries = yield from traces.erase_in_steps(erasure.id, criteria)
            with control.transaction() as db:
                erasure_copies.note_erased(db, state, entries, clock.now())
        if is_settling:
            self._settle(erasure, state, control)

    def _note_nothing(
        self, erasure: Erasure, state: ErasureCopy, control: ControlDatabase, traces: Path
    ) -> None:
        """Store the progress of an order for an organisation without calls here.

        ``traces`` is the path that its database would have."""
        is_settling = self._is_settling(erasure, state)
        if traces.exists():
            return
        if state.erased_at is None:
            with control.transaction() as db:
                erasure_copies.note_erased(db, state, 0, clock.now())
        if is_settling:
            self._settle(erasure, state, control)

    def _is_settling(self, erasure: Erasure, state: ErasureCopy) -> bool:
        """Return whether all calls from before an order are recorded, and still have to be checked."""
        has_arrived = state.shipped is not None and state.settled_at is None
        return has_arrived and not erasure_work.count_waiting(erasure, self._spool_path)

    def _settle(self, erasure: Erasure, state: ErasureCopy, control: ControlDatabase) -> None:
        criteria = erasure.find_criteria()
        if criteria is None:
            return
        left = erasure_work.erase_set_aside(erasure, criteria, self._spool_path)
        with control.transaction() as db:
            erasure_copies.note_settled(db, state, left, clock.now())


def _is_unfinished(state: ErasureCopy, traces: TraceDatabase) -> bool:
    return erasure_work.is_unfinished(state.erasure_id, state.erased_at, state.entries, traces)
