"""Orders to label sessions and calls, and to write notes: rows of ``annotation_orders``.

The recorder carries them out within a second. If all calls are on one machine, the order is then
deleted. If there are several copies of the calls, each copy carries it out, and the order is kept
for ``KEPT``, for copies that are away."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime import clock
from store.annotation_rules import Kind, Subject
from store.control.audit import Activity
from store.control.records import Id, Instant, Shared, Table

KEPT = timedelta(days=7)
# An order that is younger when calls are erased may be about what comes after.
ERASED_AFTER = timedelta(seconds=10)

LABELLED = Activity("label.give", "labelled")
UNLABELLED = Activity("label.take", "took a label from")
NOTED = Activity("note.write", "wrote a note about")
UNNOTED = Activity("note.delete", "deleted the note about")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationOrder:
    """An order about ``label`` if that is set, otherwise about the note, whose new text is ``text``.

    ``is_removal``: the label or note is removed. ``by`` is the mail address of the user who ordered it,
    None for the operator. Ids sort by time."""

    id: Id
    organization_id: Id
    kind: Kind
    subject: str
    label: str | None
    text: str | None
    is_removal: bool
    by: str | None
    ordered_at: Instant

    @property
    def about(self) -> Subject:
        return Subject(self.kind, self.subject)


TABLE = Table("annotation_orders", AnnotationOrder, shared=Shared())


def place(
    db: sqlite3.Connection,
    organization_id: str,
    subject: Subject,
    *,
    label: str | None = None,
    text: str | None = None,
    is_removal: bool = False,
    by: str | None,
) -> AnnotationOrder:
    """Store and return an order, and delete orders older than ``KEPT``."""
    now = clock.now()
    db.execute("delete from annotation_orders where ordered_at < ?", (clock.format_ms(now - KEPT),))
    order = AnnotationOrder(
        id=clock.new_id(),
        organization_id=organization_id,
        kind=subject.kind,
        subject=subject.id,
        label=label,
        text=text,
        is_removal=is_removal,
        by=by,
        ordered_at=clock.format_ms(now),
    )
    TABLE.insert(db, order)
    return order


def list_organizations(db: sqlite3.Connection) -> Sequence[str]:
    """Return the ids of the organisations with orders."""
    rows = db.execute("select distinct organization_id from annotation_orders")
    return [organization_id for (organization_id,) in rows]


def list_of(db: sqlite3.Connection, organization_id: str, limit: int) -> Sequence[AnnotationOrder]:
    """Return the oldest ``limit`` orders of an organisation."""
    return TABLE.read(db, "where organization_id = ? order by id limit ?", organization_id, limit)


def is_open(db: sqlite3.Connection, order_id: str) -> bool:
    """Return whether an order is still there."""
    return TABLE.find(db, "where id = ?", order_id) is not None


def count_labels(db: sqlite3.Connection, organization_id: str, subject: Subject) -> int:
    """Return how many different labels are ordered to be added to a session or a call."""
    (count,) = db.execute(
        "select count(distinct label) from annotation_orders"
        " where organization_id = ? and kind = ? and subject = ? and not is_removal",
        (organization_id, subject.kind, subject.id),
    ).fetchone()
    return int(count)


def delete(db: sqlite3.Connection, ids: Sequence[str]) -> None:
    """Delete orders that were carried out."""
    db.executemany("delete from annotation_orders where id = ?", [(id_,) for id_ in ids])


def forget_of(db: sqlite3.Connection, organization_id: str, now: datetime) -> None:
    """Delete the orders of an organisation of which calls are erased, since they may quote the calls.

    Orders of the last ``ERASED_AFTER`` stay."""
    before = clock.format_ms(now - ERASED_AFTER)
    db.execute(
        "delete from annotation_orders where organization_id = ? and ordered_at < ?",
        (organization_id, before),
    )
