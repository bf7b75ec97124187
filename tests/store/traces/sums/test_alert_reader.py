"""The reading of bursts of failures, and of sessions far more expensive than usual."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from runtime import clock
from store.traces.sums import alert_reader
from store.traces.sums.alert_reader import read_burst, read_expensive_session
from tests.store.traffic import make_entry

NOW = datetime(2026, 11, 23, 14, 0, tzinfo=UTC)


def call(minutes_ago, **changes):
    at = clock.format_ms(NOW - timedelta(minutes=minutes_ago))
    return make_entry(created_at=at, **changes)


def failed(minutes_ago, **changes):
    error = {"outcome": "upstream_error", "status_code": 529, "error_type": "overloaded_error"}
    return call(minutes_ago, **(error | changes))


def test_a_burst_of_failures_is_found_in_the_last_hour(traces):
    traces.insert([*(failed(each) for each in range(5, 11)), call(7), call(90), failed(90)])
    burst = read_burst(traces.connection, NOW)
    assert burst is not None
    assert (burst.slug, burst.calls, burst.error) == ("default", 6, "529 overloaded_error")
    assert (burst.first_at, burst.last_at) == (
        NOW - timedelta(minutes=10),
        NOW - timedelta(minutes=5),
    )
    assert read_burst(traces.connection, NOW + timedelta(hours=2)) is None


def test_an_error_without_a_status_is_named_by_its_outcome(traces):
    gone = {"status_code": None, "error_type": None, "outcome": "upstream_unreachable"}
    traces.insert([failed(each, **gone) for each in range(5)])
    burst = read_burst(traces.connection, NOW)
    assert burst is not None
    assert burst.error == "upstream_unreachable"


def test_clients_that_disconnect_and_few_failures_are_no_burst(traces):
    traces.insert([call(each, outcome="client_disconnected") for each in range(9)])
    traces.insert([failed(each) for each in range(4)])
    assert read_burst(traces.connection, NOW) is None
    traces.insert([failed(5)])
    assert read_burst(traces.connection, NOW) is not None


def test_of_very_many_calls_the_newest_are_looked_at(traces, monkeypatch):
    monkeypatch.setattr(alert_reader, "MAX_CALLS", 5)
    traces.insert([*(failed(each) for each in range(30, 40)), *(call(each) for each in range(5))])
    assert read_burst(traces.connection, NOW) is None


def store_sessions(traces, count, cents):
    traces.insert(
        [call(3_000 + n, session_id=f"usual-{n}", cost_cents=Decimal(cents)) for n in range(count)]
    )


def test_a_session_far_more_expensive_than_usual_is_found(traces):
    store_sessions(traces, 12, 40)
    traces.insert(
        [
            call(
                20,
                session_id="night",
                title_text="The night",
                cost_cents=Decimal(440),
                message_count=1,
            )
        ]
    )
    found = read_expensive_session(traces.connection, NOW)
    assert found is not None
    assert (found.session_id, found.title, found.cents, found.times) == (
        "night",
        "The night",
        440.0,
        11.0,
    )
    assert read_expensive_session(traces.connection, NOW + timedelta(days=2)) is None


def test_the_most_expensive_session_is_none_to_tell_of_where_others_cost_as_much(traces):
    assert read_expensive_session(traces.connection, NOW) is None
    store_sessions(traces, 12, 400)
    traces.insert([call(20, session_id="night", cost_cents=Decimal(440))])
    assert read_expensive_session(traces.connection, NOW) is None
