"""Managing alerts: who may, what is refused, and what is proposed."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from runtime import clock
from runtime.errors import InvalidInputError
from store.control import activity_log, alerts
from store.control.management import Management
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

NOW = datetime(2026, 11, 23, 14, 0, tzinfo=UTC)  # a Monday
URL = "https://hooks.example.org/services/secret"


@pytest.fixture
def manage(control, tmp_path):
    return Management(control, tmp_path, lambda: NOW)


def create(manage, caller, **changes):
    fields = {"kind": "day_cost", "threshold": 50.0, "channel": "webhook", "url": URL} | changes
    return manage.alerts.create(caller, **fields)


def test_owners_add_delete_and_try_alerts_and_members_read_them(manage, people, control):
    status = create(manage, people.ann)
    rule = status.rule
    assert [each.rule for each in manage.alerts.list(people.ann)] == [rule]
    (seen,) = manage.alerts.list(people.bob)
    assert seen.rule.url == "https://hooks.example.org/…"
    latest = manage.alerts.test(people.ann, rule.id).latest
    assert latest is not None
    assert (latest.target, latest.due_at) == (URL, clock.format_ms(NOW))
    manage.alerts.delete(people.ann, rule.id)
    with control.reading() as db:
        logged = [each.action for each in activity_log.read(db, people.ann.organization_id)]
    assert logged[:3] == ["alert.delete", "alert.test", "alert.create"]


def test_an_alert_that_would_go_nowhere_is_refused(manage, people):
    with pytest.raises(InvalidInputError, match="has no webhook"):
        create(manage, people.ann, url=None)
    manage.budgets.put_webhook(people.ann, "https://ann.example/hook")
    status = create(manage, people.ann, url=None)
    manage.budgets.delete_webhook(people.ann)
    with pytest.raises(InvalidInputError, match="nobody gets this alert"):
        manage.alerts.test(people.ann, status.rule.id)


def test_an_alert_that_nobody_gets_is_known_as_the_latest(manage, people, control):
    rule = create(manage, people.ann).rule
    with control.transaction() as db:
        db.execute("update alert_rules set channel = 'webhook', url = null")
        alert = alerts.make_test(db, rule, NOW)
        db.execute("delete from alert_deliveries")
    status = manage.alerts.find(people.ann, rule.id)
    assert (status.made, status.latest) == (alert, None)


def test_twice_the_median_of_the_same_weekday_is_proposed(manage, people, tmp_path):
    assert manage.alerts.propose_day_cost(people.ann) is None
    with TraceDatabase(trace_path(tmp_path, people.ann.organization_id)) as traces:
        for weeks, cents in ((1, 1_030), (2, 9_000), (3, 1_000), (5, 1_200), (9, 99_999)):
            for days in (0, 1):
                at = NOW - timedelta(days=7 * weeks - days)
                cost = Decimal(cents if days == 0 else 77_777)
                entry = make_entry(created_at=clock.format_ms(at), cost_cents=cost)
                traces.insert([entry])
    proposal = manage.alerts.propose_day_cost(people.ann)
    assert proposal is not None
    assert (proposal.weekday, proposal.days, proposal.median_cents) == ("Monday", 4, 1_115)
    assert (proposal.threshold_usd, proposal.words) == (22, "22")
