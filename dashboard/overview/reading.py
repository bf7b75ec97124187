"""Reading the overview of a period, from one connection in one snapshot."""

import sqlite3
from datetime import datetime

from dashboard.overview.documents import Overview
from dashboard.overview.filters import Filters, Name
from dashboard.overview.periods import Period
from store.database import snapshot
from store.traces.sums.month import read_month
from store.traces.sums.overview_query import OF_CALLS, Found
from store.traces.sums.overview_reader import OverviewReader
from store.traces.sums.products import read_products
from store.traces.sums.requested_models import find_requested
from store.traces.sums.usage_report import add_up


def read_overview(
    db: sqlite3.Connection | None, period: Period, filters: Filters, by: Name, now: datetime
) -> Overview:
    """Return the overview of a period; ``db`` is None if nothing has been recorded. Raises sqlite3.Error."""
    if db is not None:
        with snapshot(db):
            reader = OverviewReader(db)
            if reader.is_ready:
                return _read(db, reader, period, filters, by, now)
    return Overview.make(period, filters, by, Found(), Found())


def _read(
    db: sqlite3.Connection,
    reader: OverviewReader,
    period: Period,
    filters: Filters,
    by: Name,
    now: datetime,
) -> Overview:
    is_hourly = period.step == "hour"
    query = filters.query(period.elapsed, by, hourly=is_hourly)
    found = reader.read(query)
    whole, before, month = found, None, None
    if not _is_of_calls(filters):  # what follows is kept in sums
        if by in OF_CALLS:
            whole = reader.read(filters.query(period.elapsed, hourly=is_hourly))
        before = add_up(reader.read(filters.query(period.before)).cells.values(), None)
        month = read_month(reader, now, query.filters)
    rejected, headroom = None, None
    if not filters.values.keys() - {"endpoint"}:
        rejected = sum(reader.count_rejected(filters.query(period.elapsed)).values())
    if not filters.values.keys() - {"credential"}:
        headroom = reader.find_headroom(filters.query(period.elapsed))
    return Overview.make(
        period,
        filters,
        by,
        found,
        whole,
        before=before,
        rejected=rejected,
        headroom=headroom,
        month=month,
        products=() if filters.values else read_products(db, period.first, period.last),
    )


def _is_of_calls(filters: Filters) -> bool:
    """Return whether single calls must be read, because no sums are kept for one of the filters."""
    is_requested = find_requested(filters.values.get("model", "")) is not None
    return is_requested or bool(filters.values.keys() & OF_CALLS)
