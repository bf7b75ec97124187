"""Alerts of budgets: rows of ``budget_alerts``.

An alert is made in one transaction with its deliveries and its entry of the activity log: one mail for each
owner, and one message for the webhook.
"""

import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta

from metering.attribution import Part, PartKind
from metering.budget_periods import Period, Span
from metering.budget_shares import WHOLE_PERCENT, find_percent, format_percent
from runtime import clock
from store.control import audit, budgets, delivery_rows
from store.control.audit import Activity, Details
from store.control.budgets import Action, Budget
from store.control.records import Id, Instant, Line, Table

KEPT_FOR = timedelta(days=100)

WARNED = Activity("budget.warning", "reported the use of the budget of")
REACHED = Activity("budget.reached", "reported a used-up budget of")
GIVEN_UP = Activity("budget.not_delivered", "gave up reporting on the budget of")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert: a budget reached ``percent`` of its limit within a period."""

    id: Id
    organization_id: Id
    proxy_endpoint_id: Id | None
    slug: Id | None
    period: Period
    starts_at: Instant
    resets_at: Instant
    limit_usd: float
    spent_usd: float
    percent: float
    action: Action
    created_at: Instant
    of_kind: PartKind | None = None
    of_value: Line | None = None

    @property
    def is_reached(self) -> bool:
        """Return whether the budget is used up."""
        return self.percent >= WHOLE_PERCENT

    @property
    def at(self) -> str:
        """Return the instant at which the alert was made."""
        return self.created_at

    @property
    def of(self) -> Part | None:
        """Return the user, project or tag whose calls the budget counts, None for all calls."""
        if self.of_kind is None or self.of_value is None:
            return None
        return Part(self.of_kind, self.of_value)

    @property
    def given_up(self) -> tuple[Activity, str, Details]:
        """Return the entry of the activity log for a delivery that is not tried any more."""
        subject_id = self.proxy_endpoint_id or self.organization_id
        return GIVEN_UP, subject_id, budgets.name_subject(self.slug, self.of)


ALERTS = Table("budget_alerts", Alert)


def make_alert(
    db: sqlite3.Connection, budget: Budget, span: Span, spent_usd: float, now: datetime
) -> Alert | None:
    """Make an alert with its deliveries if the budget reached a share that was not reported yet; or None.

    The caller holds the write lock. A budget that passes several shares at once is reported once, for
    the highest, and no lower share is reported later."""
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
    ALERTS.insert(db, alert)
    targets = [
        *delivery_rows.list_owners(db, budget.organization_id),
        *delivery_rows.list_webhook(db, budget.organization_id),
    ]
    delivery_rows.add(db, "budget_deliveries", alert.id, targets, alert.created_at)
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
    """Store an alert that another node has made, unless this database has it. Return it or None.

    Returns None too if the budget has been changed meanwhile. The caller holds the write lock."""
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


def _find_reported(db: sqlite3.Connection, budget: Budget, span: Span) -> float:
    """Return the highest percentage reported of this budget and limit in this period, or 0."""
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


def _remove_old(db: sqlite3.Connection, now: datetime) -> None:
    before = clock.format_ms(now - KEPT_FOR)
    ALERTS.delete(db, "where created_at < ?", before)
