"""Labels and notes, for the API and the pages: orders by members of an organisation.

This is a part of ``store.control.management``. The recorder carries the orders out."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from runtime.errors import LimitReachedError, NotFoundError
from store.annotation_rules import (
    MAX_LABELS,
    MAX_SUBJECT_CHARS,
    Kind,
    Subject,
    check_label,
    check_note,
)
from store.control import annotation_orders, people
from store.control.annotation_orders import AnnotationOrder
from store.control.audit import Activity
from store.control.audited import audited
from store.control.database import ControlDatabase
from store.control.people import Caller
from store.copies import find_copies
from store.database import open_readonly
from store.traces import annotations
from store.traces.paths import trace_path

READ_TIMEOUT_S = 2.0
MISSING = {"session": "there is no such session", "call": "there is no such call"}


@dataclass(frozen=True, slots=True)
class AnnotationManagement:
    """The operations that place orders in ``control.db``. Every method may also raise sqlite3.Error."""

    _control: ControlDatabase
    _data_dir: Path

    def add_label(self, caller: Caller, kind: Kind, id_: str, text: str) -> AnnotationOrder:
        """Order a label for a session or a call; a call is named by its id or by that of its entry.

        Raises InvalidInputError, NotFoundError, LimitReachedError."""
        label = check_label(text)
        subject, known = self._find(caller, kind, id_)
        with audited(self._control, caller) as (db, note):
            ordered = annotation_orders.count_labels(db, caller.organization_id, subject)
            others = {each.label for each in known.labels} - {label}
            if len(others) + ordered >= MAX_LABELS:
                raise LimitReachedError(f"a {kind} has at most {MAX_LABELS} labels; remove one")
            order = annotation_orders.place(
                db, caller.organization_id, subject, label=label, by=_find_author(db, caller)
            )
            note(annotation_orders.LABELLED, subject.id, {"kind": kind, "label": label})
            return order

    def remove_label(self, caller: Caller, kind: Kind, id_: str, text: str) -> AnnotationOrder:
        """Order the removal of a label; nothing changes if it is not there.

        Raises InvalidInputError, NotFoundError."""
        return self._order(caller, kind, id_, annotation_orders.UNLABELLED, label=check_label(text))

    def write_note(self, caller: Caller, kind: Kind, id_: str, text: str) -> AnnotationOrder:
        """Order a note to be written, in place of an earlier one.

        Raises InvalidInputError, NotFoundError."""
        return self._order(caller, kind, id_, annotation_orders.NOTED, text=check_note(text))

    def remove_note(self, caller: Caller, kind: Kind, id_: str) -> AnnotationOrder:
        """Order the removal of the note; nothing changes if there is none. Raises NotFoundError."""
        return self._order(caller, kind, id_, annotation_orders.UNNOTED)

    def is_open(self, order: AnnotationOrder) -> bool:
        """Return whether an order still waits for the recorder of this machine.

        False if the service has several copies of its calls: an order is kept for all of them."""
        if find_copies(self._data_dir) is not None:
            return False
        with self._control.reading() as db:
            return annotation_orders.is_open(db, order.id)

    def _order(
        self,
        caller: Caller,
        kind: Kind,
        id_: str,
        activity: Activity,
        *,
        label: str | None = None,
        text: str | None = None,
    ) -> AnnotationOrder:
        subject, _ = self._find(caller, kind, id_)
        is_removal = activity in (annotation_orders.UNLABELLED, annotation_orders.UNNOTED)
        with audited(self._control, caller) as (db, note):
            order = annotation_orders.place(
                db,
                caller.organization_id,
                subject,
                label=label,
                text=text,
                is_removal=is_removal,
                by=_find_author(db, caller),
            )
            # What a note says stays out of the log, which outlives it.
            note(activity, subject.id, {"kind": kind} | ({} if label is None else {"label": label}))
            return order

    def _find(
        self, caller: Caller, kind: Kind, id_: str
    ) -> tuple[Subject, annotations.Annotations]:
        """Return the subject (a call by its entry's id) and its present labels and note. Raises
        NotFoundError.

        If only other machines keep the calls, the subject is not checked and the labels are empty."""
        if not id_ or len(id_) > MAX_SUBJECT_CHARS:
            raise NotFoundError(MISSING[kind])
        subject = Subject(kind, id_)
        copies = find_copies(self._data_dir)
        if copies is not None and copies.is_elsewhere(caller.organization_id):
            return subject, annotations.NOTHING
        path = trace_path(self._data_dir, caller.organization_id)
        if not path.exists():
            raise NotFoundError(MISSING[kind])
        with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as traces:
            found = _find_known(traces, subject)
        if found is None:
            raise NotFoundError(MISSING[kind])
        return found


def _find_known(
    traces: sqlite3.Connection, subject: Subject
) -> tuple[Subject, annotations.Annotations] | None:
    row = annotations.find_row(traces, subject)
    if isinstance(row, str):
        return subject, annotations.read_of_session(traces, row)
    entry_id = None if row is None else annotations.find_entry_id(traces, row)
    if row is None or entry_id is None:
        return None
    return Subject("call", entry_id), annotations.read_of_call(traces, row)


def _find_author(db: sqlite3.Connection, caller: Caller) -> str | None:
    if caller.is_operator:
        return None
    return people.get_member_of(db, caller.organization_id, caller.user_id).email
