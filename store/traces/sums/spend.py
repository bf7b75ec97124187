"""Spend of a period by endpoint, read from the smallest tables that have it.

Spend is the cost of calls that are billed by the token, without calls that a subscription covers or
a customer pays. A call counts in the period in which its request arrived. Whole days are read from
the sums of days, whole hours from those of hours, and the rest, in time zones that are not whole
hours away, from the calls.

The spend of a user, project or tag is read from hourly sums of their own. In an hour with very many
of them the later ones share a row (``tag_sums``) and are not included. For a single endpoint there
are no such sums: the calls are read, as far as retention has left them.

Managed sessions and dreams count in the period in which they were created, with their total usage
so far. If our prices do not give a cost, the list price that the upstream states is used."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from metering.attribution import Part
from metering.budget_periods import Span
from runtime import clock
from runtime.intervals import HOUR, floor_hour
from store.database import list_columns, open_readonly, snapshot
from store.traces.sums.booking_sql import BILLING
from store.traces.sums.overview_query import format_hour
from store.traces.sums.products import COUNTED_OBJECTS
from store.traces.sums.rollup import PAID_BY_OTHERS
from store.traces.sums.usage_report import READ_TIMEOUT_S

_DAY = timedelta(days=1)


class _Sql(NamedTuple):
    """The SQL that reads a part of a period: from calls, and from a table of sums."""

    calls: str
    sums: str


_SPEND = _Sql(
    "select proxy_endpoint_id, sum(coalesce(cost_cents, 0)),"  # noqa: S608 - our own names
    " sum(cost_cents is null and usage_source <> 'none') from usage as u"
    " where created_at >= ? and created_at < ?"
    f" and coalesce({BILLING}, '') not in {PAID_BY_OTHERS} group by 1",
    "select proxy_endpoint_id, sum(cost_cents), sum(unpriced) from {table}"  # noqa: S608
    f" where {{at}} >= ? and {{at}} < ? and billing not in {PAID_BY_OTHERS} group by 1",
)
_COST = _Sql(
    "select sum(cost_cents) from usage where created_at >= ? and created_at < ?",
    "select sum(cost_cents) from {table} where {at} >= ? and {at} < ?",
)
_FROM_PART_SUMS = (
    "select sum(cost_cents - value_cents), sum(unpriced) from tags_hourly"
    " where name = ? and value = ? and hour >= ? and hour < ?"
)
_OF_PART = {
    "user": "u.attributed_user = ?",
    "project": "u.project = ?",
    "tag": "u.id in (select usage_id from tags where name = ? and value = ?)",
}
_FROM_PART_CALLS = (
    "select sum(coalesce(u.cost_cents, 0)),"  # noqa: S608 - our own names
    " sum(u.cost_cents is null and u.usage_source <> 'none') from usage as u"
    " where {part} and u.created_at >= ? and u.created_at < ?"
    f" and coalesce({BILLING}, '') not in {PAID_BY_OTHERS}"
)
_FROM_OBJECTS = (
    "select proxy_endpoint_id, sum(coalesce(cost_cents, list_cost_cents, 0)),"  # noqa: S608 - our own names
    f" sum(coalesce(cost_cents, list_cost_cents) is null) from {COUNTED_OBJECTS} group by 1"
)


@dataclass(slots=True)
class Spend:
    """The spend in cents, and the number of calls of unknown price, which are not included."""

    cents: float = 0.0
    unpriced: int = 0

    @property
    def dollars(self) -> float:
        """Return the spend in dollars, rounded to a millionth of a cent: a sum of many floats is not more
        exact."""
        return round(self.cents, 6) / 100

    def add(self, cents: float, unpriced: int) -> None:
        self.cents += cents
        self.unpriced += unpriced


type SpendByEndpoint = dict[str, Spend]
# The period of a spend, the id of its endpoint (None: of all) and its part of the calls (None: all of them).
type Asked = tuple[Span, str | None, Part | None]


def is_ready(db: sqlite3.Connection) -> bool:
    """Return whether the recorder has created the tables of sums."""
    return bool(list_columns(db, "usage_daily"))


def read_spend(db: sqlite3.Connection, span: Span) -> SpendByEndpoint:
    """Return the spend of a period by endpoint id. Raises sqlite3.Error."""
    found = defaultdict[str, Spend](Spend)
    with snapshot(db):
        for sql, start, end in (each for each in _divide(span, _SPEND) if each[1] < each[2]):
            for endpoint_id, cents, unpriced in db.execute(sql, (start, end)):
                found[endpoint_id].add(cents, unpriced)
        if list_columns(db, "upstream_objects"):  # else no newer recorder has opened it yet
            span_as_text = clock.format_ms(span.start), clock.format_ms(span.end)
            for endpoint_id, cents, unpriced in db.execute(_FROM_OBJECTS, span_as_text):
                found[endpoint_id].add(cents, unpriced)
    return dict(found)


def read_part_spend(
    db: sqlite3.Connection, span: Span, part: Part, endpoint_id: str | None = None
) -> Spend:
    """Return the spend of a user, project or tag in a period, at one endpoint or (None) at all.

    Raises sqlite3.Error."""
    found = Spend()
    if not list_columns(db, "tags_hourly"):  # no newer recorder has opened it yet
        return found
    with snapshot(db):
        for sql, parameters in _divide_part(span, part, endpoint_id):
            cents, unpriced = db.execute(sql, parameters).fetchone()
            found.add(cents or 0.0, unpriced or 0)
    return found


def _divide_part(
    span: Span, part: Part, endpoint_id: str | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield (SQL, parameters) for each part of a period."""
    first_hour, last_hour = _ceil_hour(span.start), floor_hour(span.end)
    calls = _FROM_PART_CALLS.format(part=_OF_PART[part.kind])
    values = part.pair if part.kind == "tag" else (part.value,)
    if endpoint_id is not None:
        bounds = clock.format_ms(span.start), clock.format_ms(span.end)
        yield f"{calls} and u.proxy_endpoint_id = ?", (*values, *bounds, endpoint_id)
        return
    if first_hour > last_hour:  # no whole hour
        first_hour = last_hour = span.end
    for start, end in ((span.start, first_hour), (last_hour, span.end)):
        if start < end:
            yield calls, (*values, clock.format_ms(start), clock.format_ms(end))
    yield _FROM_PART_SUMS, (*part.pair, format_hour(first_hour), format_hour(last_hour))


def read_cost(db: sqlite3.Connection, span: Span) -> float:
    """Return the cost in cents of all calls of a period, including those that others pay.

    Raises sqlite3.Error."""
    with snapshot(db):
        return sum(
            db.execute(sql, (start, end)).fetchone()[0] or 0.0
            for sql, start, end in _divide(span, _COST)
            if start < end
        )


def read_costs_of(path: Path, spans: Sequence[Span]) -> list[float]:
    """Return the cost in cents of each period, zeros if there is no file. Raises sqlite3.Error."""
    if not path.exists():
        return [0.0] * len(spans)
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        return [read_cost(db, each) if is_ready(db) else 0.0 for each in spans]


def read_spends(db: sqlite3.Connection, asked: Sequence[Asked]) -> list[Spend]:
    """Return the spend for each of ``asked``, reading each period once. Raises sqlite3.Error."""
    if not is_ready(db):
        return [Spend() for _ in asked]
    read: dict[Span, SpendByEndpoint] = {}
    found = []
    for span, endpoint_id, part in asked:
        if part is not None:
            found.append(read_part_spend(db, span, part, endpoint_id))
            continue
        if span not in read:
            read[span] = read_spend(db, span)
        found.append(find_spend(read[span], endpoint_id))
    return found


def read_spends_of(path: Path, asked: Sequence[Asked]) -> list[Spend]:
    """Return the spend for each of ``asked`` from a file, zeros if there is none.

    Raises sqlite3.Error."""
    if not path.exists():
        return [Spend() for _ in asked]
    with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        return read_spends(db, asked)


def find_spend(by_endpoint: SpendByEndpoint, endpoint_id: str | None) -> Spend:
    """Return the spend of an endpoint; for None that of all endpoints, including deleted ones."""
    if endpoint_id is not None:
        return by_endpoint.get(endpoint_id, Spend())
    total = Spend()
    for each in by_endpoint.values():
        total.add(each.cents, each.unpriced)
    return total


def _divide(span: Span, what: _Sql) -> Iterator[tuple[str, str, str]]:
    """Split a period into days, hours and the rest at both ends; yield each as (SQL, beginning, end)."""
    first_hour, last_hour = _ceil_hour(span.start), floor_hour(span.end)
    if first_hour > last_hour:  # no whole hour
        yield what.calls, clock.format_ms(span.start), clock.format_ms(span.end)
        return
    yield what.calls, clock.format_ms(span.start), clock.format_ms(first_hour)
    first_day = first_hour if first_hour.hour == 0 else first_hour.replace(hour=0) + _DAY
    last_day = last_hour.replace(hour=0)
    if first_day < last_day:
        days = what.sums.format(table="usage_daily", at="day")
        yield days, format_hour(first_day)[:10], format_hour(last_day)[:10]
    else:
        first_day = last_day = last_hour
    hours = what.sums.format(table="usage_hourly", at="hour")
    yield hours, format_hour(first_hour), format_hour(first_day)
    yield hours, format_hour(last_day), format_hour(last_hour)
    yield what.calls, clock.format_ms(last_hour), clock.format_ms(span.end)


def _ceil_hour(instant: datetime) -> datetime:
    floor = floor_hour(instant)
    return floor if floor == instant else floor + HOUR
