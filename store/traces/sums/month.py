"""Reading what the current month cost so far, and what is expected of it."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from runtime.intervals import Interval
from store.database import open_readonly, snapshot
from store.traces.sums.forecast import (
    Forecast,
    Month,
    find_basis,
    find_so_far,
    find_today,
    make_forecast,
)
from store.traces.sums.overview_query import Query
from store.traces.sums.overview_reader import OverviewReader
from store.traces.sums.usage_report import READ_TIMEOUT_S

NOTHING = Month(cost=Forecast(so_far=0.0, expected=None), spend=Forecast(so_far=0.0, expected=None))


def read_month(
    reader: OverviewReader, now: datetime, filters: Mapping[str, str] | None = None
) -> Month:
    """Return the month of an instant; ``filters`` are those of ``Query``. Raises sqlite3.Error."""

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
    """Return the month from a database that is open, None before the recorder has made its newest tables.

    Raises sqlite3.Error."""
    with snapshot(db):
        reader = OverviewReader(db)
        return read_month(reader, now) if reader.is_ready else None


def read_file(path: Path, now: datetime) -> Month:
    """Return the month of an organisation. It cost nothing while nothing has been recorded.

    Raises sqlite3.Error when the database cannot be read."""
    if not path.exists():
        return NOTHING
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        return find_month(db, now) or NOTHING
