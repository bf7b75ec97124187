"""The stored readings of the windows of subscriptions."""

from datetime import UTC, datetime, timedelta

from metering.rate_limits import RateLimits
from runtime import clock
from store.traces.calls import limit_readings
from store.traces.calls.limit_readings import KEPT, read_states
from tests.store.traffic import make_entry

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
RESET = "2026-11-20T15:00:00Z"


def state(traces, minutes_ago, used, *, resets_at=RESET, credential="c", **changes):
    """Store a call whose response states the share of a window."""
    limits = RateLimits(
        unified_5h_utilization=used,
        unified_5h_reset_at=resets_at,
        unified_5h_status=changes.pop("status", "allowed"),
        account=changes.pop("account", None),
    )
    at = clock.format_ms(NOW - timedelta(minutes=minutes_ago))
    traces.insert(
        [make_entry(created_at=at, credential_hmac=credential, rate_limits=limits, **changes)]
    )


def rows(traces):
    return traces.connection.execute("select * from limit_readings").fetchall()


def test_calls_that_state_the_same_share_have_one_row(traces):
    state(traces, 30, 0.25)
    state(traces, 10, 0.25, status="allowed_warning")
    state(traces, 20, 0.25, status="rejected")  # was longer on its way
    assert rows(traces) == [
        (
            "c",
            "5h",
            RESET,
            0.25,
            "allowed_warning",
            "2026-11-20T11:30:00.000Z",
            "2026-11-20T11:50:00.000Z",
        )
    ]


def test_calls_of_one_batch_have_one_row_too(traces):
    limits = RateLimits(unified_5h_utilization=0.25, unified_5h_reset_at=RESET)
    ats = ["2026-11-20T11:30:00.000Z", "2026-11-20T11:10:00.000Z", "2026-11-20T11:20:00.000Z"]
    traces.insert([make_entry(created_at=at, rate_limits=limits) for at in ats])
    assert [row[-2:] for row in rows(traces)] == [(ats[1], ats[0])]


def test_a_share_is_as_old_as_the_first_byte_of_its_response(traces):
    state(traces, 30, 0.25, ttfb_ms=90_500.0, duration_ms=600_000.0)
    assert rows(traces)[0][-1] == "2026-11-20T11:31:30.500Z"


def test_the_newest_window_is_the_one_that_is_reset_last(traces):
    state(traces, 200, 0.9, resets_at="2026-11-20T10:00:00Z")
    state(traces, 30, 0.1)
    state(traces, 10, 0.4)
    (found,) = read_states(traces.connection, NOW)
    assert (found.account, found.window, found.used, found.left) == ("c", "5h", 0.4, 0.6)
    assert found.resets_at == NOW + timedelta(hours=3)
    # 0.3 in 20 minutes: the 0.6 that are left are used up 40 minutes after that was read.
    assert found.used_up_at is not None
    assert found.used_up_at - NOW == timedelta(minutes=30)


def test_the_share_of_the_window_before_is_known(traces):
    state(traces, 200, 0.4, resets_at="2026-11-20T10:00:00Z")
    state(traces, 150, 0.9, resets_at="2026-11-20T10:00:00Z")
    state(traces, 2, 0.9)
    assert [each.left for each in read_states(traces.connection, NOW)] == [None]
    state(traces, 1, 0.02)
    assert [each.left for each in read_states(traces.connection, NOW)] == [0.98]


def test_an_account_is_told_by_its_fingerprint_and_else_by_the_credential(traces):
    state(traces, 30, 0.1, account="account", credential="token-1")
    state(traces, 20, 0.2, account="account", credential="token-2")
    state(traces, 25, 0.3, credential="token-1")
    state(traces, 40, 0.4, credential=None)
    found = read_states(traces.connection, NOW)
    assert [(each.account, each.used) for each in found] == [
        ("account", 0.2),
        ("token-1", 0.3),
        ("", 0.4),
    ]


def test_each_window_is_listed_those_of_one_account_together(traces):
    limits = RateLimits(
        unified_7d_oi_utilization=0.3, unified_7d_utilization=0.2, unified_5h_utilization=0.1
    )
    at = clock.format_ms(NOW - timedelta(minutes=5))
    traces.insert([make_entry(created_at=at, rate_limits=limits, credential_hmac="b")])
    state(traces, 6, 0.5, credential="a")
    found = read_states(traces.connection, NOW)
    assert [(each.account, each.window) for each in found] == [
        ("b", "5h"),
        ("b", "7d"),
        ("b", "7d_oi"),
        ("a", "5h"),
    ]


def test_a_limit_per_minute_is_no_window(traces):
    at = clock.format_ms(NOW)
    limits = RateLimits(tokens_limit=5, overage_utilization=0.5)
    traces.insert([make_entry(created_at=at, rate_limits=limits)])
    assert read_states(traces.connection, NOW) == []


def test_what_was_stated_long_ago_is_forgotten(traces):
    old = KEPT / timedelta(minutes=1) + 2
    state(traces, old, 0.1, credential="old")
    assert read_states(traces.connection, NOW) == []
    state(traces, 1, 0.1, credential="new")
    assert [row[0] for row in rows(traces)] == ["new"]


def test_a_client_that_names_ever_new_accounts_makes_no_end_of_rows(traces, monkeypatch):
    monkeypatch.setattr(limit_readings, "MAX_ACCOUNTS", 3)
    for number in range(5):
        state(traces, 10 - number, 0.1, account=f"account-{number}")
    state(traces, 1, 0.2, account="account-0")
    found = read_states(traces.connection, NOW)
    assert {each.account for each in found} == {"account-0", "account-1", "account-2"}
    assert found[0].used == 0.2


def test_the_windows_of_many_accounts_are_found_by_looking_into_the_key(traces):
    for number in range(40):
        state(traces, 50, number / 100, account=f"account-{number % 4}")
    plans = [
        row[3]
        for row in traces.connection.execute(
            "explain query plan select account, window from limit_readings"
            " where (account, window) > ('a', 'b') order by account, window limit 1"
        )
    ]
    assert len(plans) == 1
    assert plans[0].startswith("SEARCH limit_readings USING PRIMARY KEY")
    assert len(read_states(traces.connection, NOW)) == 4


def test_calls_that_are_stored_again_state_nothing_new(traces):
    entry = make_entry(rate_limits=RateLimits(unified_5h_utilization=0.25))
    traces.insert([entry])
    traces.connection.execute("delete from limit_readings")
    assert traces.insert([entry]) == 0
    assert rows(traces) == []
