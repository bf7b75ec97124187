from datetime import UTC, datetime, timedelta

import pytest

from runtime.intervals import Interval
from store.traces.sums.forecast import find_basis, find_month, make_forecast

NOW = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)


def at(month, day, hour=0):
    return datetime(2026, month, day, hour, tzinfo=UTC)


def test_a_month_is_expected_to_go_on_as_the_last_week():
    basis = find_basis(at(1, 1), NOW)
    assert basis == Interval(at(3, 7, 9), at(3, 14, 9))
    forecast = make_forecast(1_000.0, basis, 168.0, NOW)
    hours_left = (at(4, 1) - NOW) / timedelta(hours=1)
    assert forecast.expected == pytest.approx(1_000 + hours_left)


def test_days_before_the_first_call_do_not_count():
    basis = find_basis(at(3, 12, 9), NOW)
    assert basis == Interval(at(3, 12, 9), at(3, 14, 9))
    assert make_forecast(0.0, basis, 96.0, NOW).expected == pytest.approx(
        2 * (find_month(NOW).end - NOW) / timedelta(hours=1)
    )


@pytest.mark.parametrize("first", [None, at(3, 13, 10), at(3, 14, 9)])
def test_less_than_a_day_is_too_little_to_expect_anything(first):
    assert find_basis(first, NOW) is None
    assert make_forecast(5.0, None, 0.0, NOW).expected is None


def test_december_ends_with_january():
    assert find_month(datetime(2026, 12, 31, 23, tzinfo=UTC)).end == datetime(
        2027, 1, 1, tzinfo=UTC
    )
