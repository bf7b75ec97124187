"""The words of gauges: budgets, and the windows of a subscription."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from dashboard.home.choice import parse_choice
from dashboard.home.reading import Costs, Home, Strip
from dashboard.home.strip import make_budgets, make_figures, make_windows
from dashboard.overview.series import make_series
from metering.budget_periods import Span
from metering.limit_windows import WindowState
from store.control.budget_management import BudgetStatus
from store.control.budgets import Budget
from store.traces.sums.forecast import Forecast, Month
from store.traces.sums.spend import Spend
from store.traces.sums.usage_report import Totals

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
NOTHING = Forecast(so_far=0.0, expected=None)


def make_home(*windows: WindowState, **changes: Any) -> Home:
    choice = parse_choice({}, NOW)
    costs = Costs(
        choice=choice,
        compared=choice.compared(NOW),
        series=make_series(choice.period.steps, {}, {}),
        now={},
        before={},
    )
    strip = Strip(
        today=Totals(),
        week_before_cents=None,
        month=Month(cost=NOTHING, spend=NOTHING),
        last_month_cents=None,
        refused_by_budget=0,
    )
    changes = {"week": Totals(), "windows": windows} | changes
    values: dict[str, Any] = {"week": Totals(), "windows": windows, **changes}
    return Home(strip=strip, costs=costs, **values)


def make_window(**changes: Any) -> WindowState:
    fields: dict[str, Any] = {
        "account": "a",
        "window": "5h",
        "used": 0.63,
        "left": 0.37,
        "resets_at": NOW + timedelta(hours=1, minutes=20),
        "read_at": NOW,
        "used_up_at": None,
        "status": "allowed",
        "elapsed": 0.73,
    }
    return WindowState(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "warning", "words"),
    [
        ({}, "", "at most 37 % left; resets 10:50, in 1 h 20 min"),
        (
            {"used_up_at": NOW - timedelta(minutes=5)},
            "used up by now, if it went on like this",
            "resets 10:50, in 1 h 20 min",
        ),
        (
            {"used_up_at": NOW + timedelta(minutes=40)},
            "used up 10:10 at this pace",
            "resets 10:50, in 1 h 20 min",
        ),
        (
            {"used": 1.0, "left": 0.0, "used_up_at": NOW, "resets_at": NOW + timedelta(days=3)},
            "used up",
            "resets Tue 09:30",
        ),
        (
            {"resets_at": NOW + timedelta(days=8)},
            "",
            "at most 37 % left; resets 2026-03-22",
        ),
        (
            {"resets_at": None, "read_at": NOW - timedelta(minutes=12)},
            "",
            "at most 37 % left; read 12 min ago",
        ),
        ({"used": 1.07, "resets_at": None}, "", "at most 0 % left"),
    ],
)
def test_a_window_says_when_it_resets_and_whether_it_lasts(changes, warning, words):
    (windows,) = make_windows(make_home(make_window(**changes)), {}, NOW)
    (gauge,) = windows.gauges
    assert (gauge.name, gauge.warning, gauge.words) == ("5 hours", warning, words)


def test_windows_reset_by_the_clock_of_the_zone():
    there = NOW.astimezone(ZoneInfo("Pacific/Auckland"))  # 22:30
    home = make_home(make_window(), make_window(resets_at=NOW + timedelta(hours=2)))
    (windows,) = make_windows(home, {}, there)
    today, tomorrow = (each.words for each in windows.gauges)
    assert "resets 23:50, in 1 h 20 min" in today
    assert "resets Sun 00:30, in 2 h" in tomorrow


def test_days_that_are_compared_are_named_as_those_of_utc_in_another_zone():
    strip = replace(make_home().strip, today=Totals(cost_cents=30.0), week_before_cents=20.0)
    for zone, words in ((UTC, "by 09:30"), (ZoneInfo("UTC"), "by 09:30"), (BERLIN, "by 09:30 UTC")):
        today, _ = make_figures(strip, NOW, 0, "", "", zone)
        assert today.lines[0][-1].words == f"on last Saturday {words}"


def test_small_amounts_raise_no_alarm():
    home = make_home()

    def compare(today, before):
        strip = replace(home.strip, today=Totals(cost_cents=today), week_before_cents=before)
        return [(each.words, each.kind) for each in make_figures(strip, NOW, 0, "", "")[0].lines[0]]

    assert compare(9.0, 0.14) == [("<$0.01 last Saturday by 09:30", "")]
    assert compare(40.0, 20.0)[0] == ("+100 %", "")
    assert compare(400.0, 20.0) == [("$0.20 last Saturday by 09:30", "")]
    assert compare(4_000.0, 200.0)[0] == ("20 times", "up")
    assert compare(400.0, 200.0)[0] == ("+100 %", "up")


def test_a_gauge_is_high_from_nine_tenths_on_and_has_the_time_that_is_gone():
    home = make_home(make_window(used=0.9), make_window(window="7d"))
    (windows,) = make_windows(home, {}, NOW)
    high, other = windows.gauges
    assert (high.gauge.is_high, high.gauge.per_cent, high.gauge.pace) == (True, 90, "73%")
    assert not other.gauge.is_high
    assert other.name == "Week"


def test_of_a_window_that_was_reset_nothing_is_said():
    assert make_windows(make_home(make_window(left=None)), {}, NOW) == []
    assert make_windows(make_home(), {}, NOW) == []


def test_each_account_has_gauges_under_its_name_and_the_first_says_what_they_were_worth():
    worth = Totals(value_cents=6_120.0)
    (only,) = make_windows(make_home(make_window(), week=worth), {}, NOW)
    assert only.title == "Subscription, $61.20 in 7 days at list prices"
    windows = [make_window(account=each * 32) for each in "abcde"]
    home = make_home(*windows, make_window(account="a" * 32, window="7d"), week=worth)
    found = make_windows(home, {"b" * 32: "laptop of Ana"}, NOW)
    assert [(each.title, len(each.gauges)) for each in found] == [
        ("Subscription aaaaaaaa, $61.20 in 7 days at list prices with the others", 2),
        ("Subscription laptop of Ana", 1),
        ("Subscription cccccccc; 2 more in /limits.json", 1),
    ]


def make_budget(spent_usd, *, name="nightly", action="refuse", period="day"):
    budget = Budget(
        id="bu_1",
        organization_id="org_1",
        proxy_endpoint_id=name,
        slug=name,
        name=name,
        period=period,
        limit_usd=1.0,
        action=action,
        time_zone="UTC",
        created_at="2026-01-01T00:00:00Z",
    )
    midnight = NOW.replace(hour=0, minute=0)
    span = Span(start=midnight, end=midnight + timedelta(days=1))
    return BudgetStatus(budget=budget, span=span, spend=Spend(cents=100 * spent_usd))


def test_budgets_are_gauges_those_used_most_first():
    found = make_budgets(
        [
            make_budget(0.5, name="warned", action="warn", period="month"),
            make_budget(0.95),
            make_budget(1.5, name="over"),
            make_budget(0.1, name="fourth"),
        ],
        NOW,
    )
    assert [(each.name, each.gauge.per_cent, each.words) for each in found] == [
        ("over", 150, "$1.50 of $1.00 today: calls are refused"),
        ("nightly", 95, "$0.95 of $1.00 today, then refused"),
        ("warned", 50, "$0.50 of $1.00 this month"),
    ]
    assert found[0].gauge.used == "100%"
    assert found[0].gauge.pace == "39%"
