"""Reading all that an overview shows of a period, by one connection in one snapshot."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from dashboard.overview.filters import Filters, Name
from dashboard.overview.periods import Period
from dashboard.overview.series import Series, make_series
from store.database import snapshot
from store.traces.sums.forecast import Month
from store.traces.sums.histograms import count, find_percentile
from store.traces.sums.month import read_month
from store.traces.sums.overview_query import OF_CALLS
from store.traces.sums.overview_reader import OverviewReader
from store.traces.sums.products import ProductTotals, read_products
from store.traces.sums.requested_models import find_requested
from store.traces.sums.timings import MEASURES, NOTHING, Timing
from store.traces.sums.usage_report import Totals, add_up


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The middle and the 95th percentile of a measure, None where no call has it."""

    p50: float | None
    p95: float | None
    calls: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The data of an overview. ``before`` are the totals of the period before, None where they are not
    known under these filters, as ``rejected``, ``headroom`` and ``month``. ``back_to`` is where reading
    calls stopped: before it nothing is in the figures. ``products`` are those of other interfaces than
    messages, which no filter is for."""

    period: Period
    filters: Filters
    by: Name
    series: Series
    percentiles: Mapping[str, Percentiles]
    group_percentiles: Mapping[str, Mapping[str, Percentiles]] = field(default_factory=dict)
    before: Totals | None = None
    rejected: int | None = None
    headroom: Mapping[str, float] | None = None
    month: Month | None = None
    back_to: datetime | None = None
    products: Sequence[ProductTotals] = ()

    @property
    def totals(self) -> Totals:
        return self.series.totals

    def find_percentiles(self, group: str | None) -> Mapping[str, Percentiles] | None:
        """Return the percentiles of a group, None where they are not known, as of the rest."""
        return None if group is None else self.group_percentiles.get(group)


def read_overview(
    db: sqlite3.Connection, period: Period, filters: Filters, by: Name, now: datetime
) -> Overview:
    """Return the overview of a period. Raises sqlite3.Error."""
    with snapshot(db):
        reader = OverviewReader(db)
        if not reader.is_ready:
            return empty(period, filters, by)
        found = _read(reader, period, filters, by, now)
        if not filters.values:
            found = replace(found, products=read_products(db, period.first, period.last))
        return found


def empty(period: Period, filters: Filters, by: Name) -> Overview:
    """Return the overview of an organisation without calls."""
    return Overview(
        period=period,
        filters=filters,
        by=by,
        series=make_series(period.steps, {}, {}),
        percentiles=find_percentiles(NOTHING),
    )


def _read(
    reader: OverviewReader, period: Period, filters: Filters, by: Name, now: datetime
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
    series = make_series(period.steps, whole.cells, found.cells)
    rejected, headroom = None, None
    if not filters.values.keys() - {"endpoint"}:
        rejected = sum(reader.count_rejected(filters.query(period.elapsed)).values())
    if not filters.values.keys() - {"credential"}:
        headroom = reader.find_headroom(filters.query(period.elapsed))
    return Overview(
        period=period,
        filters=filters,
        by=by,
        series=series,
        before=before,
        percentiles=find_percentiles(sum(whole.timings.values(), NOTHING)),
        group_percentiles={
            name: find_percentiles(found.timings[name])
            for group in series.listed
            if (name := group.name) is not None and name in found.timings
        },
        rejected=rejected,
        headroom=headroom,
        month=month,
        back_to=found.back_to,
    )


def _is_of_calls(filters: Filters) -> bool:
    """Return whether figures are read from calls, because no sums are kept by a filter."""
    is_requested = find_requested(filters.values.get("model", "")) is not None
    return is_requested or bool(filters.values.keys() & OF_CALLS)


def find_percentiles(timing: Timing) -> dict[str, Percentiles]:
    """Return the percentiles of each measure from its histogram."""
    return {
        name: Percentiles(
            find_percentile(histogram, 0.5), find_percentile(histogram, 0.95), count(histogram)
        )
        for name, histogram in zip(MEASURES, timing, strict=True)
    }
