"""Rules for alerts, from the calls that are recorded to the alerts that are made."""

import logging
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from metering.rate_limits import parse_limits
from recorder.alerts import LOOK_S, AlertWatch
from runtime import clock
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

NOON = datetime(2026, 11, 22, 12, 30, tzinfo=UTC)


@pytest.fixture
def make_watch(tmp_path, times):
    watches = []

    def make():
        clocks = (lambda: times.elapsed_s, lambda: times.now)
        watches.append(AlertWatch(tmp_path, tmp_path / "control.db", *clocks))
        return watches[-1]

    yield make
    for watch in watches:
        watch.close()


@pytest.fixture
def look(make_watch, times, control):
    """Look again, at an instant; returns what alerts say that are new."""
    watch = make_watch()
    seen: set[str] = set()

    def look(at=NOON, watch=watch):
        times.now = at
        times.elapsed_s += LOOK_S
        watch.look()
        with control.reading() as db:
            rows = db.execute("select id, subject || ' ' || sentence from alerts order by id")
            found = [(id_, text) for id_, text in rows if id_ not in seen]
        seen.update(id_ for id_, _ in found)
        return [text for _, text in found]

    return look


@pytest.fixture
def rule(management, ann):
    def rule(kind, threshold):
        return management.alerts.create(ann, kind=kind, threshold=threshold).rule

    return rule


def call(cents=1, at=NOON, **changes):
    return make_entry(created_at=clock.format_ms(at), cost_cents=Decimal(cents), **changes)


def test_an_expensive_session_is_told_once(look, rule, traces):
    rule("session_cost", 5)
    traces.insert([call(499, session_id="a/b"), call(100, session_id="c")])
    assert look() == []
    traces.insert([call(1, session_id="a/b")])
    assert look() == ["Expensive session: “session a/b” is at $5.00."]
    traces.insert([call(900, session_id="a/b")])
    assert look() == []
    traces.insert([call(500, session_id="c")])
    assert look() == ["Expensive session: “session c” is at $6.00."]


def test_sessions_of_days_before_a_rule_are_not_told(look, rule, traces):
    traces.insert([call(900, NOON - timedelta(hours=2), session_id="old")])
    traces.insert([call(900, NOON - timedelta(minutes=2), session_id="new")])
    rule("session_cost", 5)
    assert look() == ["Expensive session: “session new” is at $9.00."]


def test_failed_calls_are_told_once_an_hour(look, rule, traces):
    rule("errors", 3)
    error = {"outcome": "upstream_error", "status_code": 529, "cost_items": ()}
    traces.insert([call(0, NOON - timedelta(hours=1), **error) for _ in range(3)])
    traces.insert([call(0, **error), call(0, **error), call(0, outcome="client_disconnected")])
    assert look() == []
    traces.insert([call(0, **error)])
    assert look() == ["3 calls failed since 12:00 UTC."]
    traces.insert([call(0, **error)])
    assert look() == []
    later = NOON + timedelta(hours=1)
    traces.insert([call(0, later, **error) for _ in range(4)])
    assert look(later) == ["4 calls failed since 13:00 UTC."]


def limits(used, resets_at):
    found = parse_limits(
        {
            "unified-status": "allowed",
            "unified-5h-utilization": f"{used}",
            "unified-5h-reset": f"{int(resets_at.timestamp())}",
        }
    )
    assert found is not None
    return found._replace(account="a" * 32)


def test_a_window_is_told_once_until_it_is_reset(look, rule, traces, management, ann):
    management.names.put(ann, "a" * 32, "laptop of Ana")
    rule("window", 0.9)
    reset = NOON + timedelta(minutes=70)
    traces.insert([call(1, NOON - timedelta(minutes=9), rate_limits=limits(0.89, reset))])
    assert look() == []
    traces.insert([call(1, NOON - timedelta(minutes=5), rate_limits=limits(0.9, reset))])
    (told,) = look()
    assert told.startswith(
        "90% used of the 5-hour window of the subscription laptop of Ana; it resets at"
        " 2026-11-22 13:40 UTC, and is used up at"
    )
    traces.insert([call(1, rate_limits=limits(0.97, reset))])
    assert look() == []
    after = reset + timedelta(minutes=50)
    assert look(after) == []
    traces.insert([call(1, after, rate_limits=limits(0.95, reset + timedelta(hours=5)))])
    assert len(look(after)) == 1


def test_an_expensive_day_is_told_once_a_day_of_the_time_zone(look, rule, traces, management, ann):
    management.budgets.set_time_zone(ann, "Asia/Kolkata")  # its day began at 18:30 UTC
    rule("day_cost", 10)
    traces.insert([call(900, NOON - timedelta(hours=18, minutes=1))])  # the day before
    traces.insert([call(600, NOON - timedelta(hours=17)), call(399, billing="subscription")])
    assert look() == []
    traces.insert([call(1)])
    assert look() == ["2026-11-22 costs $10.00 so far, over $10.00."]
    traces.insert([call(500)])
    assert look() == []
    next_day = NOON + timedelta(hours=7)
    traces.insert([call(1_500, next_day)])
    assert look(next_day) == ["2026-11-23 costs $15.00 so far, over $10.00."]


def test_a_rule_that_is_new_or_deleted_is_followed(look, rule, traces, management, ann):
    traces.insert([call(2_000)])
    assert look() == []
    found = rule("day_cost", 10)
    assert look() == ["2026-11-22 costs $20.00 so far, over $10.00."]
    management.alerts.delete(ann, found.id)
    traces.insert([call(2_000)])
    assert look() == []


def test_what_was_told_is_not_told_again_after_a_restart(look, rule, traces, make_watch):
    rule("day_cost", 10)
    traces.insert([call(2_000)])
    assert len(look()) == 1
    assert look(watch=make_watch()) == []


def test_an_alert_waits_while_the_control_database_is_written(look, rule, traces, control):
    rule("day_cost", 10)
    traces.insert([call(2_000)])
    with control.transaction():
        assert look() == []
    assert len(look()) == 1


def test_traces_that_cannot_be_read_are_said_once_and_keep_nobody_waiting(
    look, rule, ann, tmp_path, caplog
):
    rule("day_cost", 10)
    path = trace_path(tmp_path, ann.organization_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database" * 1000)
    with caplog.at_level(logging.WARNING):
        assert look() == look() == []
    assert len([each for each in caplog.records if "Alerts cannot be" in each.message]) == 1


def test_nothing_is_read_while_nothing_changes(look, rule, traces, monkeypatch, management, ann):
    rule("day_cost", 10)
    traces.insert([call(2_000)])
    look()
    monkeypatch.setattr("recorder.alerts.find_alerts", lambda *_: pytest.fail("read again"))
    management.create_key(ann, "others write to the database too")
    assert look() == []
