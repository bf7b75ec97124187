"""The alerts of the home page in words."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from dashboard.home.alerts import list_alerts, show_burst
from metering.alerts import Burst
from runtime import clock
from store.control.alerts import Alert
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

NOW = datetime(2026, 11, 23, 14, 0, tzinfo=UTC)


def ago(minutes):
    return clock.format_ms(NOW - timedelta(minutes=minutes))


def make_alert(kind):
    return Alert(
        id=clock.new_id(),
        organization_id="o",
        rule_id="r",
        occasion="x",
        kind=kind,
        subject="Today costs",
        sentence="more than $50.",
        link="/",
        at=ago(3),
    )


def test_a_burst_says_when_where_and_what():
    at = NOW - timedelta(minutes=20)
    shown = show_burst(Burst("data team", 14, "529 overloaded_error", 12, at, NOW), UTC)
    assert f"{shown.subject} {shown.sentence}" == (
        "14 calls failed between 13:40 and 14:00 UTC on data team: mostly 529 overloaded_error."
    )
    assert shown.link == "/calls?failed=1&endpoint=data+team"
    shown = show_burst(Burst("ci", 5, "500 api_error", 5, NOW, NOW + timedelta(seconds=9)), UTC)
    assert shown.sentence == "at 14:00 UTC on ci: 500 api_error."
    shown = show_burst(Burst("ci", 5, "500 api_error", 5, at, NOW), ZoneInfo("Asia/Kolkata"))
    assert shown.sentence == "between 19:10 and 19:30 IST on ci: 500 api_error."


def test_what_is_found_stands_beside_what_rules_have_made(tmp_path):
    error = {"outcome": "upstream_error", "status_code": 500, "error_type": "api_error"}
    usual = [
        make_entry(created_at=ago(3_000 + n), session_id=f"s{n}", cost_cents=Decimal(20))
        for n in range(10)
    ]
    expensive = make_entry(created_at=ago(30), session_id="a/b", cost_cents=Decimal(240))
    with TraceDatabase(tmp_path / "traces.db") as traces:
        traces.insert([*usual, expensive])
        traces.insert(
            [make_entry(created_at=ago(n), cost_cents=Decimal(0), **error) for n in range(6)]
        )
        connection = traces.connection
        found = list_alerts(connection, [], NOW, UTC)
        assert [(each.subject, each.is_mild) for each in found] == [
            ("6 calls failed", False),
            ("Expensive session:", True),
        ]
        assert found[1].sentence == "“session a/b” is at $2.40, 12 times the usual."
        assert found[1].link == "/sessions/a%2Fb"
        ruled = [make_alert("session_cost"), make_alert("day_cost")]
        shown = list_alerts(connection, ruled, NOW, UTC)
        assert [(each.subject, each.is_mild) for each in shown] == [
            ("Today costs", False),
            ("6 calls failed", False),
            ("Today costs", True),
        ]


def test_while_nothing_is_recorded_there_are_those_of_rules():
    assert list_alerts(None, [], NOW, UTC) == []
    (shown,) = list_alerts(None, [make_alert("day_cost")], NOW, UTC)
    assert (shown.subject, shown.sentence) == ("Today costs", "more than $50.")
