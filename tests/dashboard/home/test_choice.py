"""The choices of addresses of the home page, and the comparison of two periods."""

from datetime import UTC, datetime

import pytest

from dashboard.home.choice import parse_choice
from dashboard.home.comparison import compare
from runtime.errors import InvalidInputError
from store.traces.sums.requested_models import mark
from store.traces.sums.rollup import UNKNOWN
from store.traces.sums.usage_report import Totals

NOW = datetime(2026, 3, 14, 9, 30, tzinfo=UTC)


def test_what_is_usual_is_left_out_of_addresses():
    choice = parse_choice({}, NOW)
    assert choice.address() == "/"
    assert choice.address(period="30d", by="endpoint") == "/?period=30d&by=endpoint"
    assert parse_choice({"by": "client", "model": "a b"}, NOW).address(measure="time") == (
        "/?by=client&measure=time&model=a+b"
    )


def test_two_weeks_are_compared_as_weeks_and_other_periods_with_what_was_before():
    assert parse_choice({}, NOW).compared(NOW).span == "7d"
    for span in ("today", "7d", "month", "2026-03-01..2026-03-03"):
        choice = parse_choice({"period": span}, NOW)
        assert choice.compared(NOW) == choice.period


@pytest.mark.parametrize("arguments", [{"by": "x"}, {"measure": "x"}, {"period": "x"}])
def test_an_unknown_choice_is_refused(arguments):
    with pytest.raises(InvalidInputError, match="must be"):
        parse_choice(arguments, NOW)


def cost(cents, **changes):
    return Totals(calls=1, cost_cents=cents, **changes)


@pytest.mark.parametrize("others", [(UNKNOWN,), (mark("a"), mark("b")), (UNKNOWN, mark("a"))])
def test_groups_without_a_name_are_one_that_is_named_as_elsewhere(others):
    now = {"a": cost(1.0)} | dict.fromkeys(others, cost(0.0))
    found = compare(now, {}, lambda totals: totals.cost_cents, 6)
    assert ([line.name for line in found.lines], found.rest) == (["a", UNKNOWN], None)
    assert (found.lines[1].now.calls, found.total.now.calls) == (len(others), len(others) + 1)


def test_groups_without_a_value_are_in_the_rest_and_unknown_ones_are_not():
    now = {"a": cost(1.0), "free": cost(0.0), "unknown": cost(0.0, unpriced=1), "b": cost(3.0)}
    found = compare(now, {"gone": cost(2.0)}, lambda totals: totals.cost_cents, 6)
    assert [line.name for line in found.lines] == ["b", "a", "gone", "unknown"]
    assert found.rest is not None
    assert (found.rest.now.calls, found.rest.now.cost_cents) == (1, 0)
    assert (found.total.now.calls, found.total.now.cost_cents) == (4, 4)
    assert found.total.before.cost_cents == 2


def test_more_groups_than_have_room_are_one_rest():
    now = {f"g{n}": cost(float(n)) for n in range(1, 9)}
    found = compare(now, {}, lambda totals: totals.cost_cents, 6)
    assert [line.name for line in found.lines] == ["g8", "g7", "g6", "g5", "g4", "g3"]
    assert found.rest is not None
    assert found.rest.now.cost_cents == 3
