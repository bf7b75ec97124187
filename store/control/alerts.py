"""Rules for alerts, and the alerts that were made by them: rows of ``alert_rules`` and ``alerts``.

A rule makes one alert for each occasion: a session, an hour, a window of a subscription, or a day.
"""

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from metering.formats import format_count
from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from runtime.webhook_rule import WebhookRule
from store.control.records import Table

type Kind = Literal["session_cost", "errors", "window", "day_cost"]
type Channel = Literal["mail", "webhook"]
type Format = Literal["plain", "slack", "teams"]

MAX_RULES = 100  # of an organisation
MAX_THRESHOLD = 1e9
ACTIVE_FOR = timedelta(days=1)
KEPT_FOR = timedelta(days=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule. ``threshold`` is in dollars for costs, failed calls within an hour for ``errors``, and the
    used share for ``window``. Without ``url`` a webhook is that of the organisation."""

    id: str
    organization_id: str
    kind: Kind
    threshold: float
    channel: Channel
    format: Format
    url: str | None
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """An alert of a rule: what it is about (``subject``, in a few words), a sentence, and where to look.

    ``occasion`` tells the alerts of a rule apart."""

    id: str
    organization_id: str
    rule_id: str
    occasion: str
    kind: Kind
    subject: str
    sentence: str
    link: str
    at: str


RULES = Table("alert_rules", AlertRule)
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
    RULES.insert(db, RULES.make_row(rule))


def list_rules(db: sqlite3.Connection, organization_id: str) -> Sequence[AlertRule]:
    """Return the rules of an organisation, newest first."""
    return RULES.read(db, "where organization_id = ? order by id desc", organization_id)


def delete_rule(db: sqlite3.Connection, organization_id: str, rule_id: str) -> AlertRule:
    """Delete a rule with its alerts. Raises NotFoundError."""
    rule = RULES.find(db, "where organization_id = ? and id = ?", organization_id, rule_id)
    if rule is None:
        raise NotFoundError(f"there is no rule {rule_id!r}")
    db.execute("delete from alert_rules where id = ?", (rule_id,))
    return rule


def note(db: sqlite3.Connection, alert: Alert) -> bool:
    """Store an alert; return False where its rule has made one for this occasion already."""
    before = clock.format_ms(clock.parse_instant(alert.at) - KEPT_FOR)
    db.execute("delete from alerts where at < ?", (before,))
    cursor = db.execute(
        "insert into alerts (id, organization_id, rule_id, occasion, kind, subject, sentence, link, at)"
        " values (:id, :organization_id, :rule_id, :occasion, :kind, :subject, :sentence, :link, :at)"
        " on conflict (rule_id, occasion) do nothing",
        ALERTS.make_row(alert),
    )
    return cursor.rowcount > 0


def list_active(
    db: sqlite3.Connection, organization_id: str, now: datetime, limit: int
) -> Sequence[Alert]:
    """Return the alerts of the last day, newest first."""
    since = clock.format_ms(now - ACTIVE_FOR)
    return ALERTS.read(
        db,
        "where organization_id = ? and at >= ? order by at desc, id desc limit ?",
        organization_id,
        since,
        limit,
    )
