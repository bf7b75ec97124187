from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from metering.budget_periods import find_span, list_zones


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "now", "start", "hours"),
    [
        ("UTC", "2026-11-22T23:59", "2026-11-22T00:00", 24),
        ("Europe/Berlin", "2026-01-15T23:00", "2026-01-15T23:00", 24),
        ("Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", 23),  # clocks go forward
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", 25),  # and back
        ("Asia/Kolkata", "2026-01-01T18:29", "2025-12-31T18:30", 24),
        ("Asia/Kathmandu", "2026-01-01T18:15", "2026-01-01T18:15", 24),
        ("Asia/Beirut", "2026-03-29T12:00", "2026-03-28T22:00", 23),  # there is no midnight
        ("America/Havana", "2026-11-01T12:00", "2026-11-01T04:00", 25),  # there are two
        ("America/Goose_Bay", "2010-11-07T02:30", "2010-11-06T03:00", 24),  # 23:30 again
        ("America/Toronto", "1919-03-31T04:35", "1919-03-30T05:00", 24),  # 23:30 was 0:30
        ("Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00", 24),  # a date is left out
    ],
)
def test_a_day_begins_at_midnight_of_its_zone(zone, now, start, hours):
    span = find_span("day", zone, at(now))
    assert (span.start, span.end - span.start) == (at(start), timedelta(hours=hours))


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        ("2026-12-31T22:59", "2026-11-30T23:00", "2026-12-31T23:00"),
        ("2026-12-31T23:00", "2026-12-31T23:00", "2027-01-31T23:00"),
        ("2026-03-31T12:00", "2026-02-28T23:00", "2026-03-31T22:00"),
    ],
)
def test_a_month_begins_at_midnight_of_its_first_day(now, start, end):
    span = find_span("month", "Europe/Berlin", at(now))
    assert (span.start, span.end) == (at(start), at(end))


@pytest.mark.parametrize(
    ("zone", "now", "start", "hours"),
    [
        ("UTC", "2026-11-29T23:59", "2026-11-23T00:00", 168),  # a Sunday
        ("UTC", "2026-11-30T00:00", "2026-11-30T00:00", 168),  # a Monday
        ("Europe/Berlin", "2026-11-22T23:00", "2026-11-22T23:00", 168),
        ("Europe/Berlin", "2026-10-25T12:00", "2026-10-18T22:00", 169),  # clocks go back
        ("UTC", "2027-01-01T12:00", "2026-12-28T00:00", 168),  # over the end of a year
    ],
)
def test_a_week_begins_at_midnight_of_its_monday(zone, now, start, hours):
    span = find_span("week", zone, at(now))
    assert (span.start, span.end - span.start) == (at(start), timedelta(hours=hours))


@given(
    period=st.sampled_from(["day", "week", "month"]),
    zone=st.sampled_from(sorted(list_zones())),
    now=st.datetimes(datetime(1975, 1, 1), datetime(2036, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_every_instant_is_in_one_period_and_the_next_begins_where_it_ends(period, zone, now):
    span = find_span(period, zone, now)
    assert span.has(now)
    assert not span.has(span.end)
    assert find_span(period, zone, span.end).start == span.end
    assert find_span(period, zone, span.end - timedelta(microseconds=1)) == span
