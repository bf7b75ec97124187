"""Alerts of budgets, and their deliveries: rows of ``budget_alerts`` and ``budget_deliveries``.

An alert is made in one transaction with its deliveries and its entry of the activity log: one mail for each
owner, and one message for the webhook. Deliveries are tried until they succeed or are given up, also after a
restart. One that was delivered just before a process was killed is delivered again, with the same id.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from metering.attribution import Part, PartKind
from metering.budget_periods import Period, Span
from metering.budget_shares import WHOLE_PERCENT, find_percent, format_percent
from runtime import clock
from store.control import audit, budgets, people
from store.control.audit import Activity
from store.control.budgets import Action, Budget
from store.control.records import Table

type Channel = Literal["mail", "webhook"]

KEPT_FOR = timedelta(days=100)
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

WARNED = Activity("budget.warning", "reported the use of the budget of")
REACHED = Activity("budget.reached", "reported a used-up budget of")
GIVEN_UP = Activity("budget.not_delivered", "gave up reporting on the budget of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A budget that reached a percentage of its limit within a period."""

    id: str
    organization_id: str
    proxy_endpoint_id: str | None
    slug: str | None
    period: Period
    starts_at: str
    resets_at: str
    limit_usd: float
    spent_usd: float
    percent: float
    action: Action
    created_at: str
    of_kind: PartKind | None = None
    of_value: str | None = None

    @property
    def is_reached(self) -> bool:
        """Return whether the budget is used up."""
        return self.percent >= WHOLE_PERCENT

    @property
    def of(self) -> Part | None:
        """Return the calls that the budget is about, None for all."""
        if self.of_kind is None or self.of_value is None:
            return None
        return Part(self.of_kind, self.of_value)


ALERTS = Table("budget_alerts", Alert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of an alert: to a mail address, or to the address of a webhook.

    ``attempts`` is how often it was tried; without ``due_at`` it is not tried again."""

    id: str
    alert: Alert
    channel: Channel
    target: str
    attempts: int
    due_at: str | None
    delivered_at: str | None = None
    error: str | None = None


def make_alert(
    db: sqlite3.Connection, budget: Budget, span: Span, spent_usd: float, now: datetime
) -> Alert | None:
    """Make an alert with its deliveries where a share of the budget is reached that was not reported yet.
    The caller holds the write lock.

    A budget that goes past several percentages at once is reported once, and never a lower one after a
    higher one."""
    percent = find_percent(budget.shares, budget.limit_usd, spent_usd)
    if percent is None or _find_reported(db, budget, span) >= percent:
        return None
    alert = Alert(
        id=clock.new_id(),
        organization_id=budget.organization_id,
        proxy_endpoint_id=budget.proxy_endpoint_id,
        slug=budget.slug,
        period=budget.period,
        starts_at=clock.format_seconds(span.start),
        resets_at=clock.format_seconds(span.end),
        limit_usd=budget.limit_usd,
        spent_usd=spent_usd,
        percent=percent,
        action=budget.action,
        created_at=clock.format_ms(now),
        of_kind=budget.of_kind,
        of_value=budget.of_value,
    )
    ALERTS.insert(db, ALERTS.make_row(alert))
    db.executemany(
        "insert into budget_deliveries (id, alert_id, channel, target, due_at) values (?, ?, ?, ?, ?)",
        [
            (clock.new_id(), alert.id, channel, target, alert.created_at)
            for channel, target in _list_targets(db, budget.organization_id)
        ],
    )
    audit.write_for_service(
        db,
        budget.organization_id,
        REACHED if alert.is_reached else WARNED,
        budget.subject_id,
        {**budgets.name_subject(budget.slug, budget.of), "by": format_percent(percent)},
    )
    _remove_old(db, now)
    return alert


def repeat_alert(db: sqlite3.Connection, alert: Alert, now: datetime) -> Alert | None:
    """Make an alert that another node has made, if it was not made here.

    None is made of a budget that has been changed meanwhile. The caller holds the write lock."""
    span = Span(clock.parse_instant(alert.starts_at), clock.parse_instant(alert.resets_at))
    for budget in budgets.list_after(db, alert.organization_id):
        if (budget.proxy_endpoint_id, budget.of, budget.period, budget.limit_usd) == (
            alert.proxy_endpoint_id,
            alert.of,
            alert.period,
            alert.limit_usd,
        ):
            return make_alert(db, budget, span, alert.spent_usd, now)
    return None


def list_current(db: sqlite3.Connection, now: datetime) -> list[Alert]:
    """Return the alerts of periods that have not ended, the oldest first."""
    return ALERTS.read(db, "where resets_at > ? order by id", clock.format_seconds(now))


def list_due(db: sqlite3.Connection, now: datetime, limit: int) -> Sequence[Delivery]:
    """Return deliveries that are due, the longest due first."""
    return _select(db, "d.due_at <= ? order by d.due_at limit ?", (clock.format_ms(now), limit))


def list_latest(db: sqlite3.Connection, organization_id: str, limit: int) -> Sequence[Delivery]:
    """Return the latest deliveries of an organisation, newest first."""
    where = "organization_id = ? order by created_at desc, d.id desc limit ?"
    return _select(db, where, (organization_id, limit))


def note_delivered(db: sqlite3.Connection, delivery: Delivery, now: datetime) -> None:
    """Note that a delivery succeeded."""
    db.execute(
        "update budget_deliveries set attempts = attempts + 1, due_at = null, delivered_at = ?,"
        " error = null where id = ?",
        (clock.format_ms(now), delivery.id),
    )


def note_failed(
    db: sqlite3.Connection, delivery: Delivery, error: str, now: datetime, *, is_final: bool = False
) -> Delivery:
    """Note that an attempt failed and when the next one is due; return the delivery as it is then. The
    last one is in the activity log."""
    gives_up = is_final or delivery.attempts >= len(PAUSES)
    failed = replace(
        delivery,
        attempts=delivery.attempts + 1,
        due_at=None if gives_up else clock.format_ms(now + PAUSES[delivery.attempts]),
        error=error[:MAX_ERROR_LENGTH],
    )
    db.execute(
        "update budget_deliveries set attempts = ?, due_at = ?, error = ? where id = ?",
        (failed.attempts, failed.due_at, failed.error, failed.id),
    )
    if gives_up:
        audit.write_for_service(
            db,
            delivery.alert.organization_id,
            GIVEN_UP,
            delivery.alert.proxy_endpoint_id or delivery.alert.organization_id,
            {
                **budgets.name_subject(delivery.alert.slug, delivery.alert.of),
                "by": delivery.channel,
                "error": failed.error,
            },
        )
    return failed


def note_dropped(db: sqlite3.Connection, delivery: Delivery, reason: str) -> None:
    """Note that a delivery is not tried any more, because nobody wants it or it cannot be made."""
    db.execute(
        "update budget_deliveries set due_at = null, error = ? where id = ?",
        (reason[:MAX_ERROR_LENGTH], delivery.id),
    )


def _find_reported(db: sqlite3.Connection, budget: Budget, span: Span) -> float:
    """Return the percentage that was reported last of this limit in this period, else 0."""
    (percent,) = db.execute(
        "select coalesce(max(percent), 0) from budget_alerts where organization_id = ?"
        " and proxy_endpoint_id is ? and of_kind is ? and of_value is ?"
        " and period = ? and starts_at = ? and limit_usd = ?",
        (
            budget.organization_id,
            budget.proxy_endpoint_id,
            budget.of_kind,
            budget.of_value,
            budget.period,
            clock.format_seconds(span.start),
            budget.limit_usd,
        ),
    ).fetchone()
    return float(percent)


def _list_targets(db: sqlite3.Connection, organization_id: str) -> Sequence[tuple[Channel, str]]:
    targets: list[tuple[Channel, str]] = [
        ("mail", member.email)
        for member in people.list_members_of(db, organization_id)
        if member.role == "owner" and member.email is not None
    ]
    webhook = budgets.find_webhook(db, organization_id)
    if webhook is not None:
        targets.append(("webhook", webhook.url))
    return targets


def _remove_old(db: sqlite3.Connection, now: datetime) -> None:
    before = clock.format_ms(now - KEPT_FOR)
    db.execute("delete from budget_alerts where created_at < ?", (before,))


def _select(
    db: sqlite3.Connection, where: str, parameters: tuple[object, ...]
) -> Sequence[Delivery]:
    rows = db.execute(
        "select d.id, d.channel, d.target, d.attempts, d.due_at, d.delivered_at, d.error,"  # noqa: S608
        f" {ALERTS.columns} from budget_deliveries d"
        f" join budget_alerts on budget_alerts.id = d.alert_id where {where}",
        parameters,
    )
    return [
        Delivery(
            id=row[0],
            channel=row[1],
            target=row[2],
            attempts=row[3],
            due_at=row[4],
            delivered_at=row[5],
            error=row[6],
            alert=ALERTS.make(row[7:]),
        )
        for row in rows
    ]
