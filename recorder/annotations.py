"""Writing the labels and notes that people have ordered, a few times a second."""

import logging
import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from recorder.background import RETRY_S, BackgroundWork
from recorder.open_databases import OpenDatabases
from runtime import clock
from store import database
from store.control import annotation_orders
from store.control.annotation_orders import AnnotationOrder
from store.control.database import ControlDatabase
from store.copies import find_copies
from store.traces import annotations
from store.traces.annotations import Label, Note

logger = logging.getLogger(__name__)

LOOK_S = 0.2
AT_ONCE = 100
# A copy may get an order before the call that it is about.
PATIENCE = timedelta(minutes=10)


class AnnotationWork(BackgroundWork):
    """Carries out orders of all organisations."""

    def __init__(
        self,
        data_dir: Path,
        control_path: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
    ) -> None:
        """Take orders from ``control.db``. ``clock_s`` is a monotonic clock."""
        failure = "Labels and notes of %s cannot be written now: %s"
        super().__init__(databases, clock_s, self._carry_out, failure)
        self._data_dir = data_dir
        self._control_path = control_path
        self._control: ControlDatabase | None = None
        self._look_at_s = 0.0

    def begin(self, organization_id: str) -> None:
        """Do nothing: orders are in ``control.db``, and do not come with new calls."""

    def run_step(self) -> bool:
        """Carry out some orders. Return whether any is left. Never raises."""
        now_s = self._clock_s()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            try:
                for organization_id in self._list_organizations():
                    super().begin(organization_id)
            except (sqlite3.Error, OSError) as error:
                logger.warning("Orders of labels and notes cannot be read now: %s", error)
                self._look_at_s = now_s + RETRY_S
        return super().run_step()

    def close(self) -> None:
        """Close ``control.db``."""
        if self._control is not None:
            self._control.close()
            self._control = None

    def _list_organizations(self) -> Sequence[str]:
        if self._control is None:
            if not self._control_path.exists():
                return ()
            self._control = ControlDatabase(self._control_path)
        with self._control.reading() as db:
            return annotation_orders.list_organizations(db)

    def _carry_out(self, organization_id: str, traces: sqlite3.Connection) -> bool:
        control = self._control
        if control is None:
            return False
        is_shared = find_copies(self._data_dir) is not None
        with control.reading() as db:
            limit = -1 if is_shared else AT_ONCE
            orders = annotation_orders.list_of(db, organization_id, limit)
        if is_shared:
            carry_out_once(traces, orders)
            return False
        with database.immediate(traces):
            for order in orders:
                write_order(traces, order)
        with control.transaction() as db:
            annotation_orders.delete(db, [each.id for each in orders])
        return len(orders) == AT_ONCE


def carry_out_once(traces: sqlite3.Connection, orders: Sequence[AnnotationOrder]) -> None:
    """Carry out those of all orders of an organisation that this copy has not yet.

    One whose session or call has not come yet is left for a while."""
    done = {id_ for (id_,) in traces.execute("select order_id from annotations_done")}
    new = [each for each in orders if each.id not in done]
    gone = done - {each.id for each in orders}
    if not new and not gone:
        return
    latest = clock.format_ms(clock.now() - PATIENCE)
    with database.immediate(traces):
        for order in new:
            if write_order(traces, order) or order.ordered_at < latest:
                traces.execute("insert into annotations_done (order_id) values (?)", (order.id,))
        traces.executemany(
            "delete from annotations_done where order_id = ?", [(id_,) for id_ in gone]
        )


def write_order(traces: sqlite3.Connection, order: AnnotationOrder) -> bool:
    """Carry out an order; return whether its session or call is there. The caller holds the write lock.

    To do it again changes nothing."""
    subject = order.about
    row = annotations.find_row(traces, subject)
    if row is None:
        return False
    if order.label is not None and order.is_removal:
        annotations.remove_label(traces, subject, row, order.label)
    elif order.label is not None:
        label = Label(label=order.label, by=order.by, at=order.ordered_at)
        annotations.write_label(traces, subject, row, label)
    elif order.text is None or order.is_removal:
        annotations.remove_note(traces, subject, row)
    else:
        note = Note(text=order.text, by=order.by, at=order.ordered_at)
        annotations.write_note(traces, subject, row, note)
    return True
