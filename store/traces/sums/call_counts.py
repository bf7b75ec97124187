"""The numbers of calls of a period by one column, from the sums alone."""

import sqlite3
from typing import NamedTuple

from store.traces.sums.overview_query import COLUMNS, Query, divide, write_filters


class CallCounts(NamedTuple):
    """The number of calls, of failed ones among them, and their cost in US cents."""

    calls: int = 0
    failed: int = 0
    cost_cents: float = 0.0


def count_calls(db: sqlite3.Connection, query: Query) -> dict[str, CallCounts]:
    """Return counts by the values of the column ``query.by``, most calls first; by "" without one.

    Filters and group must be columns of the sums (``COLUMNS``). Raises sqlite3.Error."""
    group = "''" if query.by is None else COLUMNS[query.by]
    where, values = write_filters(query.filters, COLUMNS)
    found: dict[str, CallCounts] = {}
    for table, at, start, end in divide(query):
        rows = db.execute(
            f"select {group}, sum(entries), sum(errors), total(cost_cents) from {table}"  # noqa: S608 - our own text
            f" where {at} >= ? and {at} < ?{where} group by 1",
            (start, end, *values),
        )
        for name, calls, failed, cents in rows:
            known = found.get(name, CallCounts())
            found[name] = CallCounts(
                known.calls + calls, known.failed + failed, known.cost_cents + cents
            )
    ordered = sorted(found.items(), key=lambda each: (-each[1].calls, each[0]))
    return {name: counts for name, counts in ordered if counts.calls}
