"""The status line in words: each part, their order, and what is left out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from metering.limit_windows import WindowState
from metering.status_line import (
    PARTS,
    BudgetLeft,
    SessionStatus,
    Status,
    make_line,
    parse_parts,
)

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)


def session(**changes):
    fields: dict[str, Any] = {
        "cost_cents": 124.0,
        "estimated_cents": 0.0,
        "value_cents": 0.0,
        "slug": "default",
    }
    return SessionStatus(**(fields | changes))


def window(name="5h", **changes):
    fields: dict[str, Any] = {
        "account": "a",
        "window": name,
        "used": 0.42,
        "left": 0.58,
        "resets_at": NOW + timedelta(hours=2, minutes=10),
        "read_at": NOW,
        "used_up_at": None,
        "status": "allowed",
        "elapsed": 0.5,
    }
    return WindowState(**(fields | changes))


def line(*parts, **status):
    return make_line(Status(**({"session": session()} | status)), parts or PARTS.keys(), NOW)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "$1.24"),
        ({"estimated_cents": 3.0}, "$1.24 ($0.03 estimated)"),
        ({"value_cents": 124.0}, "$1.24 value"),
        ({"value_cents": 24.0}, "$1.24"),
        ({"cost_cents": 0.0}, "$0.00"),
    ],
)
def test_a_cost_says_what_of_it_is_estimated_and_whether_it_is_a_value(changes, said):
    assert line("cost", session=session(**changes)) == said


@pytest.mark.parametrize(
    ("left_s", "said"), [(252, "cache 4:12"), (3601, "cache 60:01"), (0, "cache cold")]
)
def test_a_cache_counts_down_until_it_is_cold(left_s, said):
    until = NOW + timedelta(seconds=left_s)
    assert line("cache", session=session(cached_until=until)) == said
    broken = session(cached_until=until, break_cents=21.0)
    assert line("cache", session=broken) == f"{said} · last break $0.21"


def test_windows_count_down_to_their_reset():
    windows = [window(), window("7d", used=1.02, resets_at=NOW + timedelta(days=3))]
    said = "5h 42% (resets in 2 h 10 min) · 7d 102% (resets in 3 days)"
    assert line("limits", windows=windows) == said
    assert line("limits", windows=[window(left=None)]) == "5h reset"
    assert line("limits", windows=[window(resets_at=None)]) == "5h 42%"
    assert line("limits", windows=[window("\x1b[2J")]) == "", (
        "what upstream named is no text of ours"
    )
    assert line("limits", windows=[window()] * 20).count("5h") == 4


def test_budgets_that_hold_for_the_session_say_what_is_left():
    budgets = [
        BudgetLeft(slug=None, left_cents=4000.0, when="this month"),
        BudgetLeft(slug="default", left_cents=1240.0, when="today"),
        BudgetLeft(slug="other", left_cents=1.0, when="today"),
    ]
    said = "budget $12.40 left today · budget $40.00 left this month"
    assert line("budget", budgets=budgets) == said
    assert line("budget", session=None, budgets=budgets) == "budget $40.00 left this month"
    over = BudgetLeft(slug=None, left_cents=-10.0, when="today")
    assert line("budget", budgets=[over]) == "budget $0.00 left today"


def test_the_parts_have_one_order_and_some_may_be_chosen():
    budgets = [BudgetLeft(slug=None, left_cents=100.0, when="today")]
    known = session(cached_until=NOW)
    said = "$1.24 · cache cold · 5h 42% (resets in 2 h 10 min) · budget $1.00 left today"
    status = {"session": known, "windows": [window()], "budgets": budgets}
    assert line(**status) == said
    assert line("budget", "cost", **status) == "$1.24 · budget $1.00 left today"
    assert line(session=None) == ""


@pytest.mark.parametrize("text", ["", ",", "cost,price", "Cost", "cost;limits"])
def test_parts_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="name some of cost, cache, limits, budget"):
        parse_parts(text)


def test_parts_are_separated_by_commas():
    assert parse_parts("limits, cost,") == {"cost", "limits"}
