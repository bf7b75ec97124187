"""Reading of the cost of the current month and day, so far and expected.

A working day is not uniform, so for the rest of a day the cost of the same hours in the last seven
days is expected."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

from runtime.intervals import HOUR, Interval, floor_hour
from store.database import open_readonly, snapshot
from store.traces.sums.forecast import (
    Forecast,
    Month,
    find_basis,
    find_so_far,
    find_today,
    make_forecast,
)
from store.traces.sums.overview_query import DAY, Query
from store.traces.sums.overview_reader import OverviewReader
from store.traces.sums.usage_report import READ_TIMEOUT_S

NOTHING = Month(cost=Forecast(so_far=0.0, expected=None), spend=Forecast(so_far=0.0, expected=None))


def read_month(
    reader: OverviewReader, now: datetime, filters: Mapping[str, str] | None = None
) -> Month:
    """Return the cost of the month of an instant; ``filters`` are as in ``Query``. Raises sqlite3.Error."""

    def ask(interval: Interval) -> tuple[float, float]:
        query = Query(start=interval.start, end=interval.end, filters=filters or {})
        return reader.sum_cents(query)

    basis = find_basis(reader.find_first_hour(), now)
    cost, value = ask(find_so_far(now))
    basis_cost, basis_value = (0.0, 0.0) if basis is None else ask(basis)
    return Month(
        cost=make_forecast(cost, basis, basis_cost, now),
        spend=make_forecast(cost - value, basis, basis_cost - basis_value, now),
        today_cents=ask(find_today(now))[0],
    )


def find_month(db: sqlite3.Connection, now: datetime) -> Month | None:
    """Return the cost of the month from an open database, or None if tables are not created yet.

    Raises sqlite3.Error."""
    with snapshot(db):
        reader = OverviewReader(db)
        return read_month(reader, now) if reader.is_ready else None


def read_file(path: Path, now: datetime) -> Month:
    """Return the cost of the month of an organisation, zero if nothing has been recorded.

    Raises sqlite3.Error if the database cannot be read."""
    if not path.exists():
        return NOTHING
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        return find_month(db, now) or NOTHING


DAYS = 7
_LEAST_DAYS = 1


def expect_day(reader: OverviewReader, so_far: float, now: datetime, query: Query) -> float | None:
    """Return the expected cents at the end of the day of an instant, or None without enough data.

    ``so_far`` is the cost of the day in cents; ``query`` has the filters. Raises sqlite3.Error."""
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
