"""Writing of the labels and notes that people have ordered, a few times a second."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from recorder.open_databases import OpenDatabases
from recorder.ordered_work import OrderedWork
from runtime import clock
from store import database
from store.control import annotation_orders
from store.control.annotation_orders import AnnotationOrder
from store.control.database import ControlDatabase
from store.copies import find_copies
from store.traces import annotations
from store.traces.annotations import Label, Note

LOOK_S = 0.2
AT_ONCE = 100
# A copy may get an order before the call that it is about.
PATIENCE = timedelta(minutes=10)


class AnnotationWork(OrderedWork):
    """The execution of orders of all organisations for labels and notes."""

    def __init__(
        self,
        data_dir: Path,
        control_path: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
    ) -> None:
        """Read orders from ``control.db``. ``clock_s`` is a monotonic clock in seconds."""
        super().__init__(
            control_path,
            databases,
            clock_s,
            _list_organizations,
            self._carry_out,
            "Orders of labels and notes",
            "Labels and notes of %s cannot be written now: %s",
            look_s=LOOK_S,
        )
        self._data_dir = data_dir

    def _carry_out(self, organization_id: str, traces: sqlite3.Connection) -> bool:
        is_shared = find_copies(self._data_dir) is not None
        with self._control.reading() as db:
            limit = -1 if is_shared else AT_ONCE
            orders = annotation_orders.list_of(db, organization_id, limit)
        if is_shared:
            carry_out_once(traces, orders)
            return False
        with database.immediate(traces):
            for order in orders:
                write_order(traces, order)
        with self._control.transaction() as db:
            annotation_orders.delete(db, [each.id for each in orders])
        return len(orders) == AT_ONCE


def _list_organizations(control: ControlDatabase) -> Sequence[str]:
    with control.reading() as db:
        return annotation_orders.list_organizations(db)


def carry_out_once(traces: sqlite3.Connection, orders: Sequence[AnnotationOrder]) -> None:
    """Carry out those orders of an organisation that this copy has not carried out yet.

    An order whose session or call has not been stored yet is left for a while."""
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
    """Carry out an order; return whether its session or call exists.

    Repeating it changes nothing. The caller holds the write lock."""
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
