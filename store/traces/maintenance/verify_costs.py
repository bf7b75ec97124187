"""Verification of costs, hourly sums and daily sums against the rows that they are computed from.

Costs must agree with line items, the sums of an hour with its calls, and the sums of a day with its
hours. Sums of hours are computed again in SQL, independently of the code that keeps them, for one
hour at a time, by endpoint, model and billing. An hour of which retention has removed calls cannot
be checked."""

import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

from metering.components import SEARCH_UNIT, TOKEN_UNIT, WEB_SEARCH
from store.database import snapshot
from store.traces.sums import booking_sql
from store.traces.sums.rollup import DAY_KEYS, SUMS

_PAGE = 1_000
_TOLERANCE = 1e-6  # of a sum of doubles, in any order
_KEYS = ("hour", "proxy_endpoint_id", "slug", "model", "billing")
_CALL_KEYS = (
    "substr(u.created_at, 1, 13), u.proxy_endpoint_id, u.slug, coalesce({model}, ''),"
    f" coalesce({booking_sql.BILLING}, '')"
)
_WITHIN = "u.created_at >= :hour and u.created_at < :hour || '~'"
_OF_CALL = booking_sql.OF_CALL | {
    "timed": "u.duration_ms is not null",
    "duration_ms": "coalesce(u.duration_ms, 0)",
}
_OF_MONEY = {"cost_cents": "1", "estimated_cents": "c.estimated"}
_COLUMNS = (*_OF_CALL, *booking_sql.OF_LINE, *_OF_MONEY)
_CALLS = (
    f"select {_CALL_KEYS.format(model='u.model')},"  # noqa: S608 - our own text
    f" {', '.join(f'sum({sql})' for sql in _OF_CALL.values())}"
    f" from usage as u where {_WITHIN} group by 1, 2, 3, 4, 5"
)
_LINES = (
    f"select {_CALL_KEYS.format(model='c.model')},"  # noqa: S608 - our own text
    f" {', '.join(f'sum(({sql}) * c.quantity)' for sql in booking_sql.OF_LINE.values())},"
    f" {', '.join(f'total(({sql}) * c.cents)' for sql in _OF_MONEY.values())}"
    " from usage as u join usage_cost as c on c.usage_id = u.id"
    f" where {_WITHIN} group by 1, 2, 3, 4, 5"
)
_SUMS = (
    f"select {', '.join(_KEYS)}, {', '.join(f'sum({name})' for name in _COLUMNS)}"  # noqa: S608 - our own names
    " from usage_hourly where hour = :hour group by 1, 2, 3, 4, 5"
)
_UNIT = f"case c.component when '{WEB_SEARCH.name}' then {SEARCH_UNIT} else {TOKEN_UNIT} end"
_EXPECTED_CENTS = f"case when {booking_sql.IS_BILLED} then c.quantity * c.rate_usd * c.multiplier * 100 / {_UNIT} else 0 end"
_WRONG_LINES = f"""
    select u.entry_id, c.line, c.cents, {_EXPECTED_CENTS} as expected
    from usage_cost as c join usage as u on u.id = c.usage_id
    where c.usage_id > :after and c.usage_id <= :up_to and c.cents is not expected
      and (c.cents is null or expected is null
           or abs(c.cents - expected) > {_TOLERANCE} * max(1, abs(expected)))
    order by c.usage_id, c.line
"""  # noqa: S608 - our own text
_WRONG_COSTS = f"""
    select u.entry_id, u.cost_cents, case when count(*) = count(c.cents) then sum(c.cents) end as expected
    from usage as u join usage_cost as c on c.usage_id = u.id
    where u.id > :after and u.id <= :up_to
    group by u.id having u.cost_cents is not expected
      and (u.cost_cents is null or expected is null
           or abs(u.cost_cents - expected) > {_TOLERANCE} * max(1, abs(expected)))
    order by u.id
"""  # noqa: S608 - our own text

_OF_DAY = ", ".join(DAY_KEYS[1:])
_DAILY = f"select {', '.join((*DAY_KEYS, *SUMS))} from usage_daily where day = :day"  # noqa: S608 - our own names
_OF_HOURS = (
    f"select substr(hour, 1, 10), {_OF_DAY}, {', '.join(f'sum({name})' for name in SUMS)}"  # noqa: S608 - our own names
    f" from usage_hourly where hour >= :day and hour < :day || '~' group by 1, {_OF_DAY}"
)

# The next day that has sums of hours or of its own, and the next hour that has sums or calls.
_NEXT_DAY = (
    "select min(day) from (select min(day) as day from usage_daily where day > :after"
    " union all select substr(min(hour), 1, 10) from usage_hourly where hour > :after)"
)
_NEXT_HOUR = (
    "select min(hour) from (select min(hour) as hour from usage_hourly where hour > :after"
    " union all select substr(min(created_at), 1, 13) from usage where created_at > :after)"
)

type _Sums = dict[tuple[str, ...], dict[str, float]]


def check_costs(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Yield (entry id, description) of each wrong cost.

    A line item costs quantity x rate x multiplier, and an entry the sum of its line items."""
    (last_id,) = connection.execute("select coalesce(max(id), 0) from usage").fetchone()
    for after in range(0, last_id, _PAGE):
        page = {"after": after, "up_to": after + _PAGE}
        for entry_id, line, cents, expected in connection.execute(_WRONG_LINES, page).fetchall():
            yield entry_id, f"line item {line} costs {cents} cents, not {expected}"
        for entry_id, cents, expected in connection.execute(_WRONG_COSTS, page).fetchall():
            yield entry_id, f"cost_cents is {cents}, and its line items come to {expected}"


def check_hours(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a description of each hourly sum that differs from that of its calls."""
    return _check_each(connection, _NEXT_HOUR, _check_hour)


def check_days(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a description of each daily sum that differs from that of its hours."""
    return _check_each(connection, _NEXT_DAY, _check_day)


def _check_each(
    connection: sqlite3.Connection,
    find_next: str,
    check: Callable[[sqlite3.Connection, str], Iterator[str]],
) -> Iterator[str]:
    """Yield the faults that ``check`` finds in each period. ``find_next`` is a query for the next period.

    Each period is read in one transaction."""
    after = ""
    while (period := connection.execute(find_next, {"after": after}).fetchone()[0]) is not None:
        after = f"{period}~"  # sorts after every instant of the period
        with snapshot(connection):
            yield from list(check(connection, period))


def _check_day(connection: sqlite3.Connection, day: str) -> Iterator[str]:
    found, expected = (
        _read(connection, sql, day, SUMS, len(DAY_KEYS)) for sql in (_DAILY, _OF_HOURS)
    )
    return _compare("usage_daily", found, "the hours", expected, SUMS)


def _check_hour(connection: sqlite3.Connection, hour: str) -> Iterator[str]:
    found = _read(connection, _SUMS, hour, _COLUMNS)
    calls = _read(connection, _CALLS, hour, _OF_CALL)
    counted = sum(sums["entries"] for sums in found.values())
    if sum(sums["entries"] for sums in calls.values()) < counted:
        return  # retention has removed some
    lines = _read(connection, _LINES, hour, (*booking_sql.OF_LINE, *_OF_MONEY))
    expected = {key: calls.get(key, {}) | lines.get(key, {}) for key in {*calls, *lines}}
    yield from _compare("usage_hourly", found, "the calls", expected, _COLUMNS)


def _compare(
    table: str, found: _Sums, origin: str, expected: _Sums, names: Sequence[str]
) -> Iterator[str]:
    """Yield a description of each sum in ``found`` that differs from ``expected``."""
    for key in sorted({*found, *expected}):
        sums, others = found.get(key, {}), expected.get(key, {})
        for name in names:
            there, right = sums.get(name, 0), others.get(name, 0)
            if not math.isclose(there, right, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE):
                where = ", ".join(part or "-" for part in key)
                yield f"{table} has {there} {name} for {where}, and {origin} have {right}"


def _read(
    connection: sqlite3.Connection,
    sql: str,
    period: str,
    names: Iterable[str],
    size: int = len(_KEYS),
) -> _Sums:
    """Return sums for a day or an hour by their first ``size`` columns, which are the keys."""
    rows = connection.execute(sql, {"day": period, "hour": period}).fetchall()
    return {row[:size]: dict(zip(names, row[size:], strict=True)) for row in rows}
