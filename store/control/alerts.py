"""Rules for alerts, and the alerts that were made by them: rows of ``alert_rules`` and ``alerts``.

A rule makes one alert for each occasion: a session, an hour, a window of a subscription, or a day. An alert
is made in one transaction with its deliveries and its entry of the activity log.
"""

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from metering.formats import format_count, format_sum_cost
from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from runtime.webhook_rule import WebhookRule
from store.control import audit, delivery_rows
from store.control.audit import Activity, Details
from store.control.budgets import Format
from store.control.delivery_rows import Channel, Target
from store.control.records import Id, Instant, Shared, Table

type Kind = Literal["session_cost", "errors", "window", "day_cost"]

MAX_RULES = 100  # of an organisation
MAX_THRESHOLD = 1e9
ACTIVE_FOR = timedelta(days=1)
KEPT_FOR = timedelta(days=100)

CREATED = Activity("alert.create", "added the alert")
DELETED = Activity("alert.delete", "deleted the alert")
TESTED = Activity("alert.test", "sent a test of the alert")
FIRED = Activity("alert.fired", "alerted:")
GIVEN_UP = Activity("alert.not_delivered", "gave up sending the alert")


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule for alerts. ``threshold`` is in dollars for costs, failed calls per hour for ``errors``, and
    the used share for ``window``. Without ``url`` a webhook alert goes to the organisation's webhook."""

    id: Id
    organization_id: Id
    kind: Kind
    threshold: float
    channel: Channel
    format: Format
    url: str | None
    created_at: Instant

    @property
    def words(self) -> str:
        """Return the condition of the rule in words, such as "a day costs $5 or more"."""
        return describe(self.kind, self.threshold)


def describe(kind: Kind, threshold: float) -> str:
    """Return in words when a rule of ``kind`` makes an alert."""
    match kind:
        case "session_cost":
            return f"a session costs {format_sum_cost(100 * threshold)} or more"
        case "day_cost":
            return f"a day costs {format_sum_cost(100 * threshold)} or more"
        case "errors":
            return f"{threshold:g} or more calls fail within an hour"
        case "window":
            return f"{threshold:.0%} or more of a subscription's window is used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert of a rule: its ``subject`` in a few words, a ``sentence`` about it, and a ``link``.

    ``occasion`` identifies an alert among those of its rule. ``link`` is a path below the address of
    the service."""

    id: Id
    organization_id: Id
    rule_id: Id
    occasion: str
    kind: Kind
    subject: str
    sentence: str
    link: str
    at: Instant
    is_test: bool = False

    @property
    def given_up(self) -> tuple[Activity, str, Details]:
        """Return the entry of the activity log for a delivery that is not tried any more."""
        return GIVEN_UP, self.rule_id, {"name": self.subject}


# The addresses of webhooks may be secrets. Nodes that look for occasions need none of them.
RULES = Table("alert_rules", AlertRule, shared=Shared(omitted=("url",)))
ALERTS = Table("alerts", Alert)


def check(rule: AlertRule, webhook_rule: WebhookRule) -> None:
    """Check the fields of a rule. Raises InvalidInputError."""
    for name, choices in (("kind", Kind), ("channel", Channel), ("format", Format)):
        known = get_args(choices.__value__)
        if getattr(rule, name) not in known:
            raise InvalidInputError(f"{name} is one of {', '.join(known)}", name)
    is_number = math.isfinite(rule.threshold) and 0 < rule.threshold <= MAX_THRESHOLD
    if not is_number or (rule.kind == "errors" and rule.threshold < 1):
        raise InvalidInputError("threshold is a number above 0, of errors at least 1", "threshold")
    if rule.kind == "window" and rule.threshold > 1:
        raise InvalidInputError(
            "the threshold of a window is the share that is used: write 0.9 for 90 %", "threshold"
        )
    if rule.channel == "mail" and rule.format != "plain":
        raise InvalidInputError("only a webhook has another format than plain", "format")
    if rule.url is not None:
        if rule.channel != "webhook":
            raise InvalidInputError("only a webhook has a url", "url")
        try:
            webhook_rule.check(rule.url)
        except ValueError as error:
            raise InvalidInputError(str(error), "url") from error


def create_rule(db: sqlite3.Connection, rule: AlertRule, webhook_rule: WebhookRule) -> None:
    """Store a rule. Raises InvalidInputError, LimitReachedError."""
    check(rule, webhook_rule)
    if len(list_rules(db, rule.organization_id)) >= MAX_RULES:
        raise LimitReachedError(f"an organisation has at most {format_count(MAX_RULES)} rules")
    RULES.insert(db, rule)


def list_all_rules(db: sqlite3.Connection) -> Sequence[AlertRule]:
    """Return the rules of all organisations, for the service itself."""
    return RULES.read(db, "order by organization_id, id")


def find_rule(db: sqlite3.Connection, rule_id: str) -> AlertRule | None:
    """Return the rule with this id, of whatever organisation, or None."""
    return RULES.find(db, "where id = ?", rule_id)


def get_rule(db: sqlite3.Connection, organization_id: str, rule_id: str) -> AlertRule:
    """Return a rule of an organisation. Raises NotFoundError."""
    rule = RULES.find(db, "where organization_id = ? and id = ?", organization_id, rule_id)
    if rule is None:
        raise NotFoundError(
            f"there is no alert {rule_id!r}; `taximeter alerts list` shows those there are"
        )
    return rule


def list_rules(db: sqlite3.Connection, organization_id: str) -> Sequence[AlertRule]:
    """Return the rules of an organisation, newest first."""
    return RULES.read(db, "where organization_id = ? order by id desc", organization_id)


def delete_rule(db: sqlite3.Connection, organization_id: str, rule_id: str) -> AlertRule:
    """Delete a rule with its alerts. Raises NotFoundError."""
    rule = get_rule(db, organization_id, rule_id)
    RULES.delete(db, "where id = ?", rule_id)
    return rule


def make(db: sqlite3.Connection, alert: Alert) -> bool:
    """Store an alert with its deliveries; return whether that was done.

    It is not if the rule is gone, or has made an alert for this occasion before. The caller holds the
    write lock."""
    rule = find_rule(db, alert.rule_id)
    if rule is None or rule.organization_id != alert.organization_id:
        return False
    before = clock.format_ms(clock.parse_instant(alert.at) - KEPT_FOR)
    ALERTS.delete(db, "where at < ?", before)
    known = "select 1 from alerts where rule_id = ? and occasion = ?"
    if db.execute(known, (rule.id, alert.occasion)).fetchone() is not None:
        return False
    ALERTS.insert(db, alert)
    delivery_rows.add(db, "alert_deliveries", alert.id, list_targets(db, rule), alert.at)
    if not alert.is_test:
        details: Details = {"name": alert.subject, "what": f" {alert.sentence}"}
        audit.write_for_service(db, rule.organization_id, FIRED, rule.id, details)
    return True


def list_targets(db: sqlite3.Connection, rule: AlertRule) -> Sequence[Target]:
    """Return the present recipients of a rule's alerts: mail addresses or a webhook."""
    if rule.channel == "mail":
        return delivery_rows.list_owners(db, rule.organization_id)
    if rule.url is not None:
        return [("webhook", rule.url)]
    return delivery_rows.list_webhook(db, rule.organization_id)


def make_test(db: sqlite3.Connection, rule: AlertRule, now: datetime) -> Alert:
    """Make a test alert, which only checks that messages reach the recipients of a rule."""
    alert = Alert(
        id=clock.new_id(),
        organization_id=rule.organization_id,
        rule_id=rule.id,
        occasion=f"test {clock.new_id()}",
        kind=rule.kind,
        subject="A test:",
        sentence=f"this is what you get when {rule.words}.",
        link="/settings/budgets",
        at=clock.format_ms(now),
        is_test=True,
    )
    make(db, alert)
    return alert


def find_latest(db: sqlite3.Connection, rule_id: str) -> Alert | None:
    """Return the latest alert of a rule, tests included, or None."""
    return ALERTS.find(db, "where rule_id = ? order by at desc, id desc limit 1", rule_id)


def list_current(db: sqlite3.Connection, now: datetime) -> list[Alert]:
    """Return the alerts of the last day of all organisations, the oldest first, without tests."""
    since = clock.format_ms(now - ACTIVE_FOR)
    return ALERTS.read(db, "where at >= ? and not is_test order by at, id", since)


def list_active(
    db: sqlite3.Connection, organization_id: str, now: datetime, limit: int
) -> Sequence[Alert]:
    """Return up to ``limit`` alerts of an organisation from the last day, newest first, without tests."""
    since = clock.format_ms(now - ACTIVE_FOR)
    return ALERTS.read(
        db,
        "where organization_id = ? and at >= ? and not is_test order by at desc, id desc limit ?",
        organization_id,
        since,
        limit,
    )
