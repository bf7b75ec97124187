"""Rules for alerts, and the alerts that they make."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from runtime.webhook_rule import PUBLIC_ONLY
from store.control import alerts
from store.control.alerts import Alert, AlertRule

NOW = datetime(2026, 11, 23, 14, 0, tzinfo=UTC)


@pytest.fixture
def rule(people):
    return AlertRule(
        id=clock.new_id(),
        organization_id=people.ann.organization_id,
        kind="session_cost",
        threshold=5.0,
        channel="webhook",
        format="slack",
        url="https://hooks.example.org/x",
        created_at=clock.format_ms(NOW),
    )


def make_alert(rule, occasion, at=NOW):
    return Alert(
        id=clock.new_id(),
        organization_id=rule.organization_id,
        rule_id=rule.id,
        occasion=occasion,
        kind=rule.kind,
        subject="Expensive session:",
        sentence="it is at $6.",
        link="/sessions/s",
        at=clock.format_ms(at),
    )


def test_rules_are_stored_and_deleted_with_their_alerts(control, people, rule):
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        assert alerts.list_rules(db, rule.organization_id) == [rule]
        assert alerts.list_rules(db, people.cid.organization_id) == []
        assert alerts.note(db, make_alert(rule, "s1"))
    with control.transaction() as db, pytest.raises(NotFoundError):
        alerts.delete_rule(db, people.cid.organization_id, rule.id)
    with control.transaction() as db:
        assert alerts.delete_rule(db, rule.organization_id, rule.id) == rule
        assert alerts.list_rules(db, rule.organization_id) == []
        assert alerts.list_active(db, rule.organization_id, NOW, 9) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("kind", "hour_cost"),
        ("channel", "fax"),
        ("format", "html"),
        ("threshold", 0.0),
        ("threshold", float("nan")),
        ("threshold", float("inf")),
        ("threshold", 1e10),
        ("url", "http://127.0.0.1/"),
        ("url", "nowhere"),
    ],
)
def test_a_rule_that_is_not_valid_is_refused(control, rule, field, value):
    with control.transaction() as db, pytest.raises(InvalidInputError):
        alerts.create_rule(db, replace(rule, **{field: value}), PUBLIC_ONLY)


def test_half_a_failed_call_and_a_mail_with_an_address_are_refused(control, rule):
    for changes in ({"kind": "errors", "threshold": 0.5}, {"channel": "mail"}):
        with control.transaction() as db, pytest.raises(InvalidInputError):
            alerts.create_rule(db, replace(rule, **changes), PUBLIC_ONLY)


def test_rules_are_bounded(control, rule, monkeypatch):
    monkeypatch.setattr(alerts, "MAX_RULES", 1)
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        with pytest.raises(LimitReachedError):
            alerts.create_rule(db, replace(rule, id=clock.new_id()), PUBLIC_ONLY)


def test_a_rule_makes_one_alert_for_each_occasion(control, rule):
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        assert alerts.note(db, make_alert(rule, "s1"))
        assert not alerts.note(db, make_alert(rule, "s1"))
        assert alerts.note(db, make_alert(rule, "s2"))


def test_alerts_are_active_for_a_day_and_forgotten_at_last(control, rule):
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        ages = (timedelta(0), timedelta(hours=23), timedelta(hours=25), timedelta(days=101))
        for number, age in enumerate(sorted(ages, reverse=True)):
            alerts.note(db, make_alert(rule, f"{number}", NOW - age))
        found = alerts.list_active(db, rule.organization_id, NOW, 9)
        assert [each.occasion for each in found] == ["3", "2"]
        assert len(alerts.list_active(db, rule.organization_id, NOW, 1)) == 1
        assert db.execute("select count(*) from alerts").fetchone() == (3,)
