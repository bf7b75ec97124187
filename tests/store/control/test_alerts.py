"""Rules for alerts, and the alerts that they make."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from runtime import clock
from runtime.errors import InvalidInputError, LimitReachedError, NotFoundError
from runtime.webhook_rule import PUBLIC_ONLY
from store.control import activity_log, alerts, budgets, deliveries
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
        assert alerts.make(db, make_alert(rule, "s1"))
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
    for changes in (
        {"kind": "errors", "threshold": 0.5},
        {"kind": "window", "threshold": 90.0},
        {"channel": "mail"},
        {"channel": "mail", "url": None},
    ):
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
        assert alerts.make(db, make_alert(rule, "s1"))
        assert not alerts.make(db, make_alert(rule, "s1"))
        assert alerts.make(db, make_alert(rule, "s2"))


def test_alerts_are_active_for_a_day_and_forgotten_at_last(control, rule):
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        ages = (timedelta(0), timedelta(hours=23), timedelta(hours=25), timedelta(days=101))
        for number, age in enumerate(sorted(ages, reverse=True)):
            alerts.make(db, make_alert(rule, f"{number}", NOW - age))
        found = alerts.list_active(db, rule.organization_id, NOW, 9)
        assert [each.occasion for each in found] == ["3", "2"]
        assert len(alerts.list_active(db, rule.organization_id, NOW, 1)) == 1
        assert db.execute("select count(*) from alerts").fetchone() == (3,)


def test_an_alert_is_sent_to_the_owners_or_to_the_webhook_of_its_rule(control, people, rule):
    mail = replace(rule, id=clock.new_id(), channel="mail", format="plain", url=None)
    shared = replace(rule, id=clock.new_id(), url=None)
    with control.transaction() as db:
        for each in (rule, mail, shared):
            alerts.create_rule(db, each, PUBLIC_ONLY)
        assert alerts.list_targets(db, shared) == []
        budgets.put_webhook(db, rule.organization_id, "https://ann.example/hook", b"s", "plain")
        for each in (rule, mail, shared):
            assert alerts.make(db, make_alert(each, "s1"))
        found = deliveries.list_due(db, NOW, 10)
    assert [(each.channel, each.target) for each in found] == [
        ("webhook", "https://hooks.example.org/x"),
        ("mail", "ann@example.org"),
        ("webhook", "https://ann.example/hook"),
    ]
    with control.reading() as db:
        (entry, *_) = activity_log.read(db, rule.organization_id)
    assert (entry.action, entry.details["what"]) == ("alert.fired", " it is at $6.")


def test_a_test_is_sent_once_and_no_alert_of_the_home_page(control, rule):
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        for _ in range(2):
            alerts.make_test(db, rule, NOW)
        first, second = deliveries.list_due(db, NOW, 10)
        assert deliveries.note_failed(db, first, "it responded with 500", NOW).due_at is None
        deliveries.note_delivered(db, second, NOW)
        assert alerts.list_active(db, rule.organization_id, NOW, 9) == []
        assert alerts.list_current(db, NOW) == []
        latest = deliveries.find_latest(db, rule.id)
        assert latest is not None
        assert latest.delivered_at is not None
        logged = [each.action for each in activity_log.read(db, rule.organization_id)]
    assert "alert.not_delivered" not in logged


def test_an_alert_that_cannot_be_delivered_is_given_up_in_the_activity_log(control, rule):
    with control.transaction() as db:
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        alerts.make(db, make_alert(rule, "s1"))
        (delivery,) = deliveries.list_due(db, NOW, 10)
        assert deliveries.note_failed(db, delivery, "no", NOW).due_at is not None
        assert deliveries.note_failed(db, delivery, "gone", NOW, is_final=True).due_at is None
        (entry, *_) = activity_log.read(db, rule.organization_id)
    assert (entry.action, entry.details["error"]) == ("alert.not_delivered", "gone")


def test_an_alert_of_a_rule_that_is_gone_or_of_another_organisation_is_not_made(
    control, people, rule
):
    with control.transaction() as db:
        assert not alerts.make(db, make_alert(rule, "s1"))
        alerts.create_rule(db, rule, PUBLIC_ONLY)
        alert = replace(make_alert(rule, "s1"), organization_id=people.cid.organization_id)
        assert not alerts.make(db, alert)
