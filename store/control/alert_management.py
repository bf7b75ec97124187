"""Management of the rules for alerts, for the API, the pages and the command line.

It is a part of ``store.control.management``. Every member may read them; only owners change them.
"""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from metering.budget_periods import find_span
from runtime import clock
from runtime.errors import InvalidInputError
from runtime.webhook_rule import WebhookRule
from store.control import alerts, budgets, deliveries
from store.control.alerts import Alert, AlertRule, Kind
from store.control.audited import audited, require_owner
from store.control.budgets import Format
from store.control.database import ControlDatabase
from store.control.deliveries import Delivery
from store.control.delivery_rows import Channel
from store.control.people import Caller
from store.traces.paths import trace_path
from store.traces.sums import spend

WEEKS, LEAST_DAYS = 8, 3
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStatus:
    """A rule with its latest alert and latest delivery, None if there was none."""

    rule: AlertRule
    made: Alert | None
    latest: Delivery | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A threshold for the cost of a day: twice the median cost of ``days`` earlier days of the same
    weekday."""

    weekday: str
    days: int
    median_cents: float

    @property
    def threshold_usd(self) -> float:
        """Return the threshold in dollars, rounded to two significant digits."""
        return float(f"{2 * self.median_cents / 100:.2g}")

    @property
    def words(self) -> str:
        """Return the threshold in dollars as text for a form, without ".00"."""
        return f"{self.threshold_usd:.2f}".removesuffix(".00")


@dataclass(frozen=True, slots=True)
class AlertManagement:
    """The operations on rules for alerts. Every method may also raise sqlite3.Error."""

    _control: ControlDatabase
    _data_dir: Path
    _now: Callable[[], datetime]
    _webhook_rule: WebhookRule

    def list(self, caller: Caller) -> Sequence[RuleStatus]:
        """Return the rules, newest first. Callers who are no owners get only the host of a webhook's
        address: the rest may be a secret."""
        with self._control.reading() as db:
            found = alerts.list_rules(db, caller.organization_id)
            return [_make_status(db, caller, each) for each in found]

    def create(
        self,
        caller: Caller,
        *,
        kind: Kind,
        threshold: float,
        channel: Channel = "mail",
        format: Format = "plain",
        url: str | None = None,
    ) -> RuleStatus:
        """Add a rule. Raises ForbiddenError, InvalidInputError, LimitReachedError."""
        require_owner(caller, "add an alert")
        rule = AlertRule(
            id=clock.new_id(),
            organization_id=caller.organization_id,
            kind=kind,
            threshold=threshold,
            channel=channel,
            format=format,
            url=url,
            created_at=clock.format_ms(self._now()),
        )
        with audited(self._control, caller) as (db, note):
            alerts.create_rule(db, rule, self._webhook_rule)
            has_webhook = budgets.find_webhook(db, caller.organization_id) is not None
            if channel == "webhook" and url is None and not has_webhook:
                raise InvalidInputError(
                    "the organisation has no webhook: name a url, or set the webhook first"
                    " (`taximeter budgets webhook URL`)",
                    "url",
                )
            note(alerts.CREATED, rule.id, {"name": f"when {rule.words}", "by": channel})
            return _make_status(db, caller, rule)

    def delete(self, caller: Caller, rule_id: str) -> AlertRule:
        """Delete a rule with its alerts. Raises ForbiddenError, NotFoundError."""
        require_owner(caller, "delete an alert")
        with audited(self._control, caller) as (db, note):
            rule = alerts.delete_rule(db, caller.organization_id, rule_id)
            note(alerts.DELETED, rule.id, {"name": f"when {rule.words}"})
            return rule

    def test(self, caller: Caller, rule_id: str) -> RuleStatus:
        """Order a test message to the recipients of a rule's alerts; the web process sends it soon.

        Raises ForbiddenError, NotFoundError, and InvalidInputError if nobody gets the alerts."""
        require_owner(caller, "send a test of an alert")
        with audited(self._control, caller) as (db, note):
            rule = alerts.get_rule(db, caller.organization_id, rule_id)
            if not alerts.list_targets(db, rule):
                raise InvalidInputError(
                    "nobody gets this alert: the organisation has no webhook"
                    if rule.channel == "webhook"
                    else "nobody gets this alert: no owner of the organisation has a mail address"
                )
            alerts.make_test(db, rule, self._now())
            note(alerts.TESTED, rule.id, {"name": f"when {rule.words}"})
            return _make_status(db, caller, rule)

    def propose_day_cost(self, caller: Caller) -> Proposal | None:
        """Return a threshold for the cost of a day, from the cost of the same weekday in earlier weeks.

        None if too few of these days had calls, or if the traces cannot be read now."""
        now = self._now()
        with self._control.reading() as db:
            zone = budgets.get_time_zone(db, caller.organization_id)
        spans = [find_span("day", zone, now - week * _WEEK) for week in range(1, WEEKS + 1)]
        try:
            path = trace_path(self._data_dir, caller.organization_id)
            cents = [each for each in spend.read_costs_of(path, spans) if each > 0]
        except sqlite3.Error:
            return None
        if len(cents) < LEAST_DAYS:
            return None
        weekday = f"{spans[0].start.astimezone(ZoneInfo(zone)):%A}"
        return Proposal(weekday=weekday, days=len(cents), median_cents=median(cents))

    def find(self, caller: Caller, rule_id: str) -> RuleStatus:
        """Return a rule with its latest alert and delivery. Raises NotFoundError."""
        with self._control.reading() as db:
            rule = alerts.get_rule(db, caller.organization_id, rule_id)
            return _make_status(db, caller, rule)


def _make_status(db: sqlite3.Connection, caller: Caller, rule: AlertRule) -> RuleStatus:
    latest = deliveries.find_latest(db, rule.id)
    if caller.role != "owner" and rule.url is not None:
        parts = urlsplit(rule.url)
        rule = replace(rule, url=f"{parts.scheme}://{parts.hostname}/…")
    return RuleStatus(rule=rule, made=alerts.find_latest(db, rule.id), latest=latest)
