"""Spend of a period by endpoint, read from the smallest tables that have it.

Spend is the cost of calls that are billed by the token: what a subscription covers, or a customer pays,
costs nothing more. A
call counts in the period in which its request arrived. Whole days come from the sums of days, whole hours
from those of hours, and what is left, in time zones that are not whole hours away, from the calls.

Managed sessions and dreams count in the period in which they were created, with all that they have used so
far. Where our prices do not tell what one cost, it is the list price that the upstream states.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from metering.budget_periods import Span
from runtime import clock
from runtime.intervals import HOUR, floor_hour
from store.database import list_columns, open_readonly, snapshot
from store.traces.sums.booking_sql import BILLING
from store.traces.sums.products import COUNTED_OBJECTS
from store.traces.sums.rollup import PAID_BY_OTHERS
from store.traces.sums.usage_report import READ_TIMEOUT_S

_DAY = timedelta(days=1)
_FROM_SUMS = (
    "select proxy_endpoint_id, sum(cost_cents), sum(unpriced) from {table}"  # noqa: S608 - our own names
    f" where {{at}} >= ? and {{at}} < ? and billing not in {PAID_BY_OTHERS} group by 1"
)
_FROM_CALLS = (
    "select proxy_endpoint_id, sum(coalesce(cost_cents, 0)),"  # noqa: S608 - our own names
    " sum(cost_cents is null and usage_source <> 'none') from usage as u"
    " where created_at >= ? and created_at < ?"
    f" and coalesce({BILLING}, '') not in {PAID_BY_OTHERS} group by 1"
)
_FROM_OBJECTS = (
    "select proxy_endpoint_id, sum(coalesce(cost_cents, list_cost_cents, 0)),"  # noqa: S608 - our own names
    f" sum(coalesce(cost_cents, list_cost_cents) is null) from {COUNTED_OBJECTS} group by 1"
)


@dataclass(slots=True)
class Spend:
    """The cents that were spent, and the number of those whose price is not known, which are not in it."""

    cents: float = 0.0
    unpriced: int = 0

    @property
    def dollars(self) -> float:
        """Return dollars, to a millionth of a cent: a sum of many floats is not exact beyond that."""
        return round(self.cents, 6) / 100

    def add(self, cents: float, unpriced: int) -> None:
        self.cents += cents
        self.unpriced += unpriced


type SpendByEndpoint = dict[str, Spend]


def is_ready(db: sqlite3.Connection) -> bool:
    """Return whether the recorder has made the tables that are read here."""
    return bool(list_columns(db, "usage_daily"))


def read_spend(db: sqlite3.Connection, span: Span) -> SpendByEndpoint:
    """Return the spend of a period by the id of the endpoint. Raises sqlite3.Error."""
    found = defaultdict[str, Spend](Spend)
    with snapshot(db):
        for sql, start, end in (each for each in _divide(span) if each[1] < each[2]):
            for endpoint_id, cents, unpriced in db.execute(sql, (start, end)):
                found[endpoint_id].add(cents, unpriced)
        if list_columns(db, "upstream_objects"):  # else no newer recorder has opened it yet
            span_as_text = clock.format_ms(span.start), clock.format_ms(span.end)
            for endpoint_id, cents, unpriced in db.execute(_FROM_OBJECTS, span_as_text):
                found[endpoint_id].add(cents, unpriced)
    return dict(found)


def read_spend_of(path: Path, span: Span) -> SpendByEndpoint:
    """Return the spend in a file, nothing while there is none. Raises sqlite3.Error."""
    if not path.exists():
        return {}
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        return read_spend(db, span) if is_ready(db) else {}


def find_spend(by_endpoint: SpendByEndpoint, endpoint_id: str | None) -> Spend:
    """Return the spend of an endpoint; of None that of all, also of those that were deleted."""
    if endpoint_id is not None:
        return by_endpoint.get(endpoint_id, Spend())
    total = Spend()
    for each in by_endpoint.values():
        total.add(each.cents, each.unpriced)
    return total


def _divide(span: Span) -> Iterator[tuple[str, str, str]]:
    """Yield the parts of a period: the SQL that reads one, its beginning and its end as text."""
    first_hour, last_hour = _ceil_hour(span.start), floor_hour(span.end)
    if first_hour > last_hour:  # no whole hour
        yield _FROM_CALLS, clock.format_ms(span.start), clock.format_ms(span.end)
        return
    yield _FROM_CALLS, clock.format_ms(span.start), clock.format_ms(first_hour)
    first_day = first_hour if first_hour.hour == 0 else first_hour.replace(hour=0) + _DAY
    last_day = last_hour.replace(hour=0)
    if first_day < last_day:
        days = _FROM_SUMS.format(table="usage_daily", at="day")
        yield days, _format_hour(first_day)[:10], _format_hour(last_day)[:10]
    else:
        first_day = last_day = last_hour
    hours = _FROM_SUMS.format(table="usage_hourly", at="hour")
    yield hours, _format_hour(first_hour), _format_hour(first_day)
    yield hours, _format_hour(last_day), _format_hour(last_hour)
    yield _FROM_CALLS, clock.format_ms(last_hour), clock.format_ms(span.end)


def _ceil_hour(instant: datetime) -> datetime:
    floor = floor_hour(instant)
    return floor if floor == instant else floor + HOUR


def _format_hour(instant: datetime) -> str:
    return instant.isoformat()[:13]
