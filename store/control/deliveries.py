"""Deliveries of alerts, to mailboxes and webhooks.

They are rows of ``budget_deliveries`` and ``alert_deliveries``, which are tried until they succeed
or are given up, also after a restart. A delivery that succeeded just before a process was killed is
delivered again, with the same id."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from runtime import clock
from store.control import alerts, audit, budget_alerts
from store.control.delivery_rows import Channel, DeliveryTable
from store.control.records import Table

# How long after each attempt the next one is made. After the last the delivery is given up.
PAUSES = (
    timedelta(seconds=5),
    timedelta(minutes=1),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=6),
    timedelta(hours=15),
)
MAX_ERROR_LENGTH = 300
type AnyAlert = budget_alerts.Alert | alerts.Alert

_ALERTS: Mapping[DeliveryTable, Table[Any]] = {
    "budget_deliveries": budget_alerts.ALERTS,
    "alert_deliveries": alerts.ALERTS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of an alert to a mail address or a webhook's address.

    ``attempts`` counts the attempts so far. ``due_at`` is the instant of the next one, None if there is
    none."""

    id: str
    alert: AnyAlert
    channel: Channel
    target: str
    attempts: int
    due_at: str | None
    delivered_at: str | None = None
    error: str | None = None

    @property
    def table(self) -> DeliveryTable:
        """Return the table that has this delivery."""
        is_of_rule = isinstance(self.alert, alerts.Alert)
        return "alert_deliveries" if is_of_rule else "budget_deliveries"


def list_due(db: sqlite3.Connection, now: datetime, limit: int) -> Sequence[Delivery]:
    """Return up to ``limit`` deliveries that are due, the longest overdue first."""
    end = "where d.due_at <= ? order by d.due_at limit ?"
    found = _select_all(db, end, clock.format_ms(now), limit)
    return sorted(found, key=lambda each: each.due_at or "")[:limit]


def list_latest(db: sqlite3.Connection, organization_id: str, limit: int) -> Sequence[Delivery]:
    """Return the latest deliveries of an organisation, newest first."""
    # The ids of alerts are in the order in which they were made.
    end = "where organization_id = ? order by alert_id desc, d.id desc limit ?"
    found = _select_all(db, end, organization_id, limit)
    return sorted(found, key=lambda each: (each.alert.at, each.id), reverse=True)[:limit]


def find_latest(db: sqlite3.Connection, rule_id: str) -> Delivery | None:
    """Return the latest delivery of an alert rule, tests included, or None."""
    end = "where rule_id = ? order by alert_id desc, d.id desc limit 1"
    return next(_select(db, "alert_deliveries", end, rule_id), None)


def is_due(db: sqlite3.Connection, delivery: Delivery) -> bool:
    """Return whether a delivery is unchanged since it was read: nobody has tried it meanwhile."""
    row = db.execute(
        f"select due_at from {delivery.table} where id = ?",  # noqa: S608
        (delivery.id,),
    ).fetchone()
    return row is not None and row[0] == delivery.due_at


def note_delivered(db: sqlite3.Connection, delivery: Delivery, now: datetime) -> None:
    """Note that a delivery succeeded."""
    db.execute(
        f"update {delivery.table} set attempts = attempts + 1, due_at = null, delivered_at = ?,"  # noqa: S608
        " error = null where id = ?",
        (clock.format_ms(now), delivery.id),
    )


def note_failed(
    db: sqlite3.Connection, delivery: Delivery, error: str, now: datetime, *, is_final: bool = False
) -> Delivery:
    """Note that an attempt failed, and return the delivery with the time of the next attempt.

    If there is no next attempt, the activity log gets an entry. A test is tried only once."""
    is_test = isinstance(delivery.alert, alerts.Alert) and delivery.alert.is_test
    gives_up = is_final or is_test or delivery.attempts >= len(PAUSES)
    failed = replace(
        delivery,
        attempts=delivery.attempts + 1,
        due_at=None if gives_up else clock.format_ms(now + PAUSES[delivery.attempts]),
        error=error[:MAX_ERROR_LENGTH],
    )
    db.execute(
        f"update {delivery.table} set attempts = ?, due_at = ?, error = ? where id = ?",  # noqa: S608
        (failed.attempts, failed.due_at, failed.error, failed.id),
    )
    if gives_up and not is_test:
        activity, subject_id, details = delivery.alert.given_up
        audit.write_for_service(
            db,
            delivery.alert.organization_id,
            activity,
            subject_id,
            {**details, "by": delivery.channel, "error": failed.error},
        )
    return failed


def note_dropped(db: sqlite3.Connection, delivery: Delivery, reason: str) -> None:
    """Note that a delivery is not tried any more, because it is no longer wanted or cannot be made."""
    db.execute(
        f"update {delivery.table} set due_at = null, error = ? where id = ?",  # noqa: S608
        (reason[:MAX_ERROR_LENGTH], delivery.id),
    )


def _select_all(db: sqlite3.Connection, end: str, *parameters: object) -> list[Delivery]:
    return [each for table in _ALERTS for each in _select(db, table, end, *parameters)]


def _select(
    db: sqlite3.Connection, table: DeliveryTable, end: str, *parameters: object
) -> Iterator[Delivery]:
    alert = _ALERTS[table]
    rows = db.execute(
        "select d.id, d.channel, d.target, d.attempts, d.due_at, d.delivered_at, d.error,"  # noqa: S608
        f" {alert.columns} from {table} d join {alert.name} on {alert.name}.id = d.alert_id {end}",
        parameters,
    ).fetchall()
    for row in rows:
        yield Delivery(
            id=row[0],
            channel=row[1],
            target=row[2],
            attempts=row[3],
            due_at=row[4],
            delivered_at=row[5],
            error=row[6],
            alert=alert.make(row[7:]),
        )
