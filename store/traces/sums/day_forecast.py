"""The expected cost of a day: its cost so far, and for the rest of it the mean of earlier days.

A day of work is no mean of its hours, so the same hours of the last seven days are expected, not any.
"""

from datetime import datetime, timedelta

from runtime.intervals import HOUR, Interval, floor_hour
from store.traces.sums.overview_query import DAY, Query
from store.traces.sums.overview_reader import OverviewReader

DAYS = 7
_LEAST_DAYS = 1


def expect_day(reader: OverviewReader, so_far: float, now: datetime, query: Query) -> float | None:
    """Return the cents of the day of an instant at its end, None where there is too little to go by.

    ``query`` has the filters. Raises sqlite3.Error."""
    today = floor_hour(now).replace(hour=0)
    first = reader.find_first_hour()
    if first is None:
        return None
    days = min(DAYS, (today - first) // DAY)
    if days < _LEAST_DAYS:
        return None
    left = Interval(floor_hour(now) + HOUR, today + DAY)
    cents = sum(
        reader.sum_cents(_move(query, left, timedelta(days=back)))[0] for back in range(1, days + 1)
    )
    return so_far + cents / days


def _move(query: Query, interval: Interval, back: timedelta) -> Query:
    return Query(start=interval.start - back, end=interval.end - back, filters=query.filters)
