"""The histograms of past days by one column each, in far fewer rows than by all columns.

``timings_daily`` has a row for each combination of endpoint, model, client, credential and billing.
``timings_by_group`` has a day's histograms added up by each of these alone, and for all calls under
the name ''. The recorder adds up a day in a pause (``recorder.timing_groups``). If a call of such a
day is stored later, the rows of the day are deleted, so existing rows are always complete."""

import sqlite3
from collections import defaultdict

from store.database import immediate, list_columns
from store.traces.sums import histograms
from store.traces.sums.timings import ALL, GROUPS, MEASURES

_MEASURES = ", ".join(MEASURES)
# The days that have timings, the newest first, each found by one step into the index.
_NEXT = (
    "with recursive days (day) as (select max(day) from timings_daily where day < :today"
    " union all select (select max(t.day) from timings_daily as t where t.day < days.day)"
    " from days where days.day is not null)"
    " select day from days where day is not null and not exists"
    " (select 1 from timings_by_group as g where g.name = :all and g.day = days.day) limit 1"
)
_OF_DAY = f"select {', '.join(GROUPS)}, {_MEASURES} from timings_daily where day = ?"  # noqa: S608 - our own names
_INSERT = (
    f"insert into timings_by_group (name, day, value, {_MEASURES})"  # noqa: S608 - our own names
    f" values (?, ?, ?, {', '.join('?' * len(MEASURES))})"
)
_ADDED_UP = "select day from timings_by_group where name = ? and day >= ? and day < ?"


def add_up_next(connection: sqlite3.Connection, today: str) -> bool:
    """Add up the newest day before ``today`` that is not added up yet. Return whether there was one."""
    with immediate(connection):
        found = connection.execute(_NEXT, {"today": today, "all": ALL}).fetchone()
        if found is None:
            return False
        groups = defaultdict[tuple[str, str], list[int]](lambda: [0] * len(MEASURES))
        for row in connection.execute(_OF_DAY, found):
            values, measures = row[: len(GROUPS)], row[len(GROUPS) :]
            for group in ((ALL, ""), *zip(GROUPS, values, strict=True)):
                histograms.add_packed(groups[group], measures)
        connection.executemany(
            _INSERT,
            (
                (name, *found, value, *map(histograms.pack, sums))
                for (name, value), sums in groups.items()
            ),
        )
    return True


def list_days(connection: sqlite3.Connection, first: str, end: str) -> list[str]:
    """Return the days from ``first`` to before ``end`` that are added up."""
    if not list_columns(connection, "timings_by_group"):
        return []  # the recorder has not made the table yet
    return [day for (day,) in connection.execute(_ADDED_UP, (ALL, first, end))]
