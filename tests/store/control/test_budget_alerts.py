from datetime import UTC, datetime, timedelta

import pytest

from metering.attribution import Part
from metering.budget_periods import Span
from store.control import activity_log, budget_alerts, budgets, deliveries
from store.control.budget_alerts import make_alert
from store.control.deliveries import PAUSES

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
TODAY = Span(NOW.replace(hour=0), NOW.replace(hour=0) + timedelta(days=1))
TOMORROW = Span(TODAY.end, TODAY.end + timedelta(days=1))


@pytest.fixture
def budget(management, people):
    management.create_endpoint(people.ann, "CI", "ci")
    return management.budgets.put(
        people.ann, "ci", period="day", limit_usd=50, action="refuse"
    ).budget


@pytest.fixture
def report(control, budget):
    def report(spent_usd, span=TODAY, budget=budget, now=NOW):
        with control.transaction() as db:
            alert = make_alert(db, budget, span, spent_usd, now)
        return None if alert is None else alert.percent

    return report


@pytest.fixture
def due(control):
    def due(now=NOW):
        with control.reading() as db:
            return deliveries.list_due(db, now, 100)

    return due


def activities(control, organization_id):
    with control.reading() as db:
        found = activity_log.read(db, organization_id)
    return [each for each in found if each.action.startswith("budget.")]


def test_each_percentage_is_reported_once_in_a_period(report):
    spent = (39.99, 40, 49.99, 50, 30, 45, 60)
    assert [report(each) for each in spent] == [None, 80, None, 100, None, None, None]
    assert report(41, TOMORROW) == 80


def test_shares_of_its_own_are_each_reported_once_in_a_period(report, management, people):
    put = management.budgets.put
    fields = {"period": "week", "limit_usd": 50, "action": "warn"}
    own = put(people.ann, "ci", warn_at=[0.9, 0.5, 0.925], **fields).budget
    assert own.shares == (0.5, 0.9, 0.925)
    spent = (24.99, 25, 44, 45, 46.24, 46.25, 49.99, 50, 60)
    found = [report(each, budget=own) for each in spent]
    assert found == [None, 50, None, 90, None, 92.5, None, 100, None]
    assert report(46.3, TOMORROW, budget=own) == 92.5
    only_whole = put(people.ann, None, warn_at=[], **fields).budget
    assert [report(each, budget=only_whole) for each in (49.99, 50)] == [None, 100]


def test_the_budgets_of_two_parts_are_reported_each(report, management, people, control, budget):
    for name in ("shop", "web"):
        part = management.budgets.put(
            people.ann, None, period="day", limit_usd=50, action="warn", of=Part("project", name)
        ).budget
        assert report(40, budget=part) == 80
        assert report(41, budget=part) is None
    assert report(40) == 80
    (whole, *parts) = activities(control, budget.organization_id)[:4:2]
    assert (whole.details.get("of"), parts[0].details["of"]) == (None, "project web")


def test_what_goes_past_both_at_once_is_reported_once(report):
    assert [report(55), report(45)] == [100, None]


def test_a_new_limit_is_reported_anew(report, management, people):
    assert report(50) == 100
    raised = management.budgets.put(
        people.ann, "ci", period="day", limit_usd=60, action="warn"
    ).budget
    assert report(50, budget=raised) == 80
    assert report(50) is None  # the old limit again


def test_an_alert_goes_to_the_owners_and_the_webhook_of_its_organisation(
    report, due, management, people
):
    management.budgets.put_webhook(people.cid, "https://cid.example/hook")
    management.budgets.put_webhook(people.ann, "https://ann.example/hook")
    report(50)
    assert {(each.channel, each.target) for each in due()} == {
        ("mail", "ann@example.org"),
        ("webhook", "https://ann.example/hook"),
    }


def test_the_activity_log_has_what_the_service_did(report, control, budget):
    report(40)
    report(50)
    reached, warning, _set = activities(control, budget.organization_id)
    assert (warning.activity, reached.activity) == (
        "reported the use of the budget of",
        "reported a used-up budget of",
    )
    assert reached.user_id is None
    assert reached.details == {"slug": "ci", "service": True, "by": "100%"}
    assert warning.details["by"] == "80%"


def test_a_delivery_is_tried_again_later_each_time_and_then_given_up(report, due, control, budget):
    report(50)
    (delivery,) = due()
    now, attempts = NOW, 0
    while delivery.due_at is not None:
        with control.transaction() as db:
            delivery = deliveries.note_failed(db, delivery, "it responded with 500", now)
        attempts += 1
        if delivery.due_at is not None:
            assert due(now) == []
            now += PAUSES[attempts - 1]
            assert due(now) == [delivery]
    assert attempts == len(PAUSES) + 1
    assert due(now + timedelta(days=9)) == []
    assert now - NOW > timedelta(hours=20)
    (given_up, *_) = activities(control, budget.organization_id)
    assert given_up.action == "budget.not_delivered"
    assert given_up.details["error"] == "it responded with 500"


def test_what_is_delivered_or_not_wanted_is_not_due_again(report, due, control):
    report(40)
    report(50)
    first, second = due()
    with control.transaction() as db:
        deliveries.note_delivered(db, first, NOW)
        deliveries.note_dropped(db, second, "nobody wants it")
    assert due(NOW + timedelta(days=1)) == []
    with control.reading() as db:
        latest = deliveries.list_latest(db, first.alert.organization_id, 10)
    assert [(each.delivered_at is None, each.error) for each in latest] == [
        (True, "nobody wants it"),
        (False, None),
    ]


def test_old_alerts_are_removed_with_their_deliveries(report, due, control):
    report(50)
    later = NOW + budget_alerts.KEPT_FOR + timedelta(days=1)
    report(50, Span(later, later + timedelta(days=1)), now=later)
    assert [each.alert.created_at[:10] for each in due(later)] == [later.date().isoformat()]
    with control.reading() as db:
        assert db.execute("select count(*) from budget_deliveries").fetchone() == (1,)


def test_the_secret_of_a_webhook_is_in_no_repr(management, people):
    webhook = management.budgets.put_webhook(people.ann, "https://ann.example/hook")
    assert repr(webhook.secret) not in repr(webhook)
    assert budgets.format_secret(webhook.secret).startswith("whsec_")
