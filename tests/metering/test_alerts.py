from datetime import UTC, datetime, timedelta

import pytest

from metering.alerts import Burst, Failure, compare_with_usual, find_burst

START = datetime(2026, 11, 23, 13, 40, tzinfo=UTC)


def fail(*minutes, slug="data-team", error="529 overloaded_error"):
    return [Failure(START + timedelta(minutes=each), slug, error) for each in minutes]


def test_failures_that_follow_one_another_are_a_burst():
    failures = [*fail(12, 0, 3, 9), *fail(5, error="500 api_error")]
    assert find_burst(failures, {"data-team": 20}) == Burst(
        "data-team", 5, "529 overloaded_error", 4, START, START + timedelta(minutes=12)
    )


@pytest.mark.parametrize(
    ("failures", "calls"),
    [
        ([], 0),
        (fail(0, 1, 2, 3), 4),  # too few
        (fail(0, 1, 2, 13, 14, 15), 6),  # a pause between two few
        (fail(0, 1, 2, 3, 4), 26),  # among many that went through
        (fail(0, 1, 2) + fail(0, 1, 2, slug="other"), 6),  # of two endpoints
    ],
)
def test_others_are_none(failures, calls):
    assert find_burst(failures, {"data-team": calls}) is None


def test_the_largest_burst_counts():
    failures = fail(*range(5)) + fail(*range(7), slug="ci") + fail(*range(30, 36))
    found = find_burst(failures, {"data-team": 11, "ci": 7})
    assert found is not None
    assert (found.slug, found.calls) == ("ci", 7)


@pytest.mark.parametrize(
    ("cents", "usual", "times"),
    [
        (489.0, [40.0] * 9 + [50.0, 44.0, 45.0], pytest.approx(489 / 40)),
        (489.0, [100.0] * 10, None),  # less than five times
        (99.0, [1.0] * 10, None),  # less than a dollar
        (489.0, [1.0] * 9, None),  # nobody knows what is usual
        (489.0, [0.0] * 10, None),
        (500.0, [100.0] * 10, 5.0),
    ],
)
def test_a_session_is_compared_with_the_median_of_others(cents, usual, times):
    assert compare_with_usual(cents, usual) == times
