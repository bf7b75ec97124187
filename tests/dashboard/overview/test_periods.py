from datetime import UTC, datetime, timedelta

import pytest

from dashboard.overview.periods import parse_span
from runtime.errors import InvalidInputError
from runtime.intervals import Interval

NOW = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)


def at(month, day, hour=0):
    return datetime(2026, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("span", "start", "end", "before", "step", "steps"),
    [
        ("today", at(3, 14), at(3, 14, 10), (at(3, 13), at(3, 13, 10)), "hour", 24),
        ("7d", at(3, 8), at(3, 14, 10), (at(3, 1), at(3, 7, 10)), "day", 7),
        ("90d", datetime(2025, 12, 15, tzinfo=UTC), at(3, 14, 10), None, "day", 90),
        ("month", at(3, 1), at(3, 14, 10), (at(2, 1), at(2, 14, 10)), "day", 14),
        ("2026-01-01..2026-01-31", at(1, 1), at(2, 1), None, "day", 31),
        ("2026-03-13..2026-03-14", at(3, 13), at(3, 14, 10), None, "hour", 48),
        ("2025-03-01..2026-02-28", datetime(2025, 3, 1, tzinfo=UTC), at(3, 1), None, "week", 53),
        ("2026-04-01..2026-04-02", at(4, 1), at(4, 1), None, "hour", 48),
    ],
)
def test_a_span_is_days_of_which_the_last_ends_with_the_current_hour(
    span, start, end, before, step, steps
):
    period = parse_span(span, NOW)
    assert period.elapsed == Interval(start, end)
    assert (period.step, len(period.steps)) == (step, steps)
    assert period.steps[0].start == start
    assert period.steps[-1].end == datetime.combine(
        period.last + timedelta(days=1), datetime.min.time(), UTC
    )
    assert all(
        one.end == other.start for one, other in zip(period.steps, period.steps[1:], strict=False)
    )
    if before is not None:
        assert period.before == Interval(*before)


def test_the_month_before_is_not_longer_than_it_was():
    period = parse_span("month", datetime(2026, 3, 31, 12, tzinfo=UTC))
    assert period.before == Interval(at(2, 1), at(3, 1))


@pytest.mark.parametrize(
    "span",
    [
        "", "8d", "yesterday", "2026-01-01", "2026-02-30..2026-03-01", "2026-03-02..2026-03-01",
        "2020-01-01..2026-01-01", "0001-01-01..0001-01-02", "9999-12-30..9999-12-31", "x..y",
    ],
)  # fmt: skip
def test_a_span_that_is_none_is_refused(span):
    with pytest.raises(InvalidInputError, match="span must be"):
        parse_span(span, NOW)
