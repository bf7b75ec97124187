"""The users, projects and tags of calls, with hourly sums.

Both are written in the transaction that changes the calls. The number of rows of an hour is
bounded, whatever clients send: the first ``MAX_NAMES`` names, and the first ``MAX_VALUES`` values
of each, have rows of their own. The rest is booked to ``OTHER``. A name that has a row in an hour
keeps it, so that a booked call can be subtracted when a cost changes. Like other sums they stay
when retention removes the calls. Calls without any of them need no rows here."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence

from metering import attribution, token_counts
from metering.entry import UsageLogEntry
from store.database import bind_list
from store.traces.sums import booking_sql
from store.traces.sums.rollup import OTHER, UNKNOWN, admit, write_upsert

MAX_NAMES, MAX_VALUES = 100, 100
KEYS = ("hour", "name", "value")
_LINES = (*token_counts.NAMES, "unbilled_tokens", "unpriced_tokens")
SUMS = {
    **booking_sql.OF_CALL,
    **{
        name: "(select cast(total(c.quantity) as integer) from usage_cost as c"  # noqa: S608 - our own text
        f" where c.usage_id = u.id and {booking_sql.OF_LINE[name]})"
        for name in _LINES
    },
    **booking_sql.MONEY_OF_CALL,
}
_TAGGED = (
    "select substr(u.created_at, 1, 13), t.name, t.value,"  # noqa: S608 - our own text
    f" {', '.join(f'sum({sql})' for sql in SUMS.values())}"
    " from tags as t join usage as u on u.id = t.usage_id"
    " where t.usage_id in (select value from json_each(?)) group by 1, 2, 3"
)
_UPSERT = write_upsert("tags_hourly", KEYS, tuple(SUMS))

type _Pair = tuple[str, str]  # name and value


def count_values(connection: sqlite3.Connection, first_hour: str) -> dict[str, int]:
    """Return the number of values of each name since ``first_hour``, the most used name first.

    A tag without a value is a name with one value. Raises sqlite3.Error."""
    rows = connection.execute(
        "select name, count(distinct value) from tags_hourly where hour >= ?"
        " group by name order by sum(entries) desc, name",
        (first_hour,),
    )
    return dict(rows.fetchall())


def write_tags(
    connection: sqlite3.Connection, entries: Iterable[tuple[int, UsageLogEntry]]
) -> list[int]:
    """Store the users, projects and tags of entries, given by row id. Return the ids of those with any.

    The caller holds the write lock."""
    rows = [
        (usage_id, name, value)
        for usage_id, entry in entries
        if entry.tags or entry.project or entry.attributed_user
        for name, value in attribution.list_pairs(
            entry.attributed_user, entry.project, attribution.parse_tags(entry.tags)
        )
    ]
    if rows:
        connection.executemany(
            "insert or ignore into tags (usage_id, name, value) values (?, ?, ?)", rows
        )
    return sorted({usage_id for usage_id, _, _ in rows})


def book(connection: sqlite3.Connection, ids: Sequence[int], *, sign: int = 1) -> None:
    """Add stored calls and their line items to the sums or, with ``sign`` -1, subtract them.

    The caller holds the write lock."""
    rows = connection.execute(_TAGGED, (bind_list(ids),)).fetchall() if ids else []
    hours = defaultdict[str, list[tuple[_Pair, tuple[float, ...]]]](list)
    for hour, name, value, *sums in rows:
        hours[hour].append(((name, value), tuple(sign * each for each in sums)))
    for hour, found in hours.items():
        names = _Names(connection, hour)
        connection.executemany(_UPSERT, [(hour, *names.bound(pair), *sums) for pair, sums in found])


def list_pairs(connection: sqlite3.Connection, usage_id: int) -> list[_Pair]:
    """Return (name, value) of each tag of a call, including user and project."""
    return connection.execute(
        "select name, value from tags where usage_id = ?", (usage_id,)
    ).fetchall()


def forget_unused(connection: sqlite3.Connection, pairs: Iterable[_Pair]) -> None:
    """Remove the sums of those names and values that no call has any more.

    The calls stay in all other sums. The caller holds the write lock."""
    for pair in pairs:
        used = "select 1 from tags where name = ? and value = ? limit 1"
        if connection.execute(used, pair).fetchone() is None:
            connection.execute("delete from tags_hourly where name = ? and value = ?", pair)


class _Names:
    """The names and values that have rows of their own in an hour."""

    def __init__(self, connection: sqlite3.Connection, hour: str) -> None:
        rows = connection.execute("select name, value from tags_hourly where hour = ?", (hour,))
        self._values = defaultdict[str, set[str]](set)
        for name, value in rows:
            self._values[name].add(value)
        self._names = self._values.keys() - {OTHER}
        for values in self._values.values():
            values.difference_update((UNKNOWN, OTHER))

    def bound(self, pair: _Pair) -> _Pair:
        """Return the name and the value of the row to which ``pair`` is booked."""
        name, value = pair
        # Those that every call may have are never without a place.
        if name not in (attribution.USER, attribution.PROJECT):
            name = admit(name, self._names, MAX_NAMES)
        if name == OTHER:
            return OTHER, UNKNOWN
        return name, admit(value, self._values[name], MAX_VALUES)
