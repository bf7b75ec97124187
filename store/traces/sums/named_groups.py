"""Groups of usage with an unlimited number of names: users, projects and tags, sessions and agents.

They have sums of their own. At most ``MAX_GROUPS`` are listed, the most expensive ones; the rest is
``OTHER``. The sums of calls without a user or project are the difference of all calls and those
with one. A call may have several tags, so groups by tag do not add up to a total, and calls without
a tag are in none."""

import sqlite3
from collections.abc import Mapping
from datetime import date
from typing import Literal, NamedTuple, TypeGuard

from store.database import list_columns
from store.traces.sessions import agent_sums
from store.traces.sessions.unnamed_sums import read_unnamed
from store.traces.sums import tag_sums
from store.traces.sums.requested_sums import take_out
from store.traces.sums.rollup import OTHER, UNKNOWN
from store.traces.sums.sum_columns import Names, Sums, add_sums, find_bounds, list_sums

type NamedGrouping = Literal["user", "project", "tag", "session", "agent"]

MAX_GROUPS = 1_000


class _Source(NamedTuple):
    """The rows with the sums: their table, the column of their time, and SQL for the name of the group."""

    table: str
    at: str
    name: str
    where: str = "true"


_TAG = "case when value = '' then name else name || ':' || value end"
_SOURCES: Mapping[NamedGrouping, _Source] = {
    "user": _Source("tags_hourly", "hour", "value", "name = 'user' and value <> ''"),
    "project": _Source("tags_hourly", "hour", "value", "name = 'project' and value <> ''"),
    "tag": _Source("tags_hourly", "hour", _TAG, "(name not in ('user', 'project') or value = '')"),
    "session": _Source("agents_daily", "day", "session_id"),
    "agent": _Source("agents_daily", "day", "agent_id"),
}
_OF_TABLE = {"tags_hourly": {*tag_sums.SUMS}, "agents_daily": {*agent_sums.SUMS}}


def is_named(by: str) -> TypeGuard[NamedGrouping]:
    """Return whether ``by`` is one of these groupings."""
    return by in _SOURCES


def read_named(
    db: sqlite3.Connection,
    by: NamedGrouping,
    from_day: date | None,
    to_day: date | None,
    whole: Sums,
) -> dict[Names, Sums]:
    """Return the sums of a period by the name of the group, "" for calls without a name.

    ``whole`` are the sums of all calls of the period; days are UTC, both included. Raises
    sqlite3.Error."""
    source = _SOURCES[by]
    first, end = find_bounds(from_day, to_day)
    listed = _read_largest(db, source, first, end)
    if by == "session":
        _list_unnamed(db, listed, first, end)
    is_cut = len(listed) > MAX_GROUPS
    if is_cut:
        listed = _keep_largest(listed)
    rest = None if by == "tag" else _find_rest(db, source, whole, listed, first, end)
    if rest is not None and (is_cut or source.table == "tags_hourly"):
        add_sums(listed, [((OTHER if is_cut else UNKNOWN,), rest)])
    return listed


def _select(source: _Source, name: str) -> str:
    sums = ", ".join(list_sums(_OF_TABLE[source.table]))
    return (
        f"select {name}, {sums} from {source.table}"  # noqa: S608 - our own names
        f" where {source.where} and {source.at} >= ? and {source.at} < ?"
    )


def _read_largest(
    db: sqlite3.Connection, source: _Source, first: str, end: str
) -> dict[Names, Sums]:
    if not list_columns(db, source.table):  # no newer recorder has opened the database yet
        return {}
    rows = db.execute(
        f"{_select(source, source.name)} group by 1 having sum(entries) > 0"
        " order by total(cost_cents) desc, 1 limit ?",
        (first, end, MAX_GROUPS + 1),
    )
    return {(row[0],): row[1:] for row in rows}


def _list_unnamed(db: sqlite3.Connection, listed: dict[Names, Sums], first: str, end: str) -> None:
    """Add unnamed sessions to ``listed``, and subtract them from the calls without a session id."""
    unnamed: dict[Names, Sums] = {}
    found = read_unnamed(db, first, end)
    add_sums(unnamed, (((name,), sums) for (_, name), sums in found.items()))
    none = listed.pop((UNKNOWN,), None)
    if none is None:
        return
    rest = take_out(none, unnamed.values())
    if rest is not None:
        listed[UNKNOWN,] = rest
    listed.update(unnamed)


def _keep_largest(listed: Mapping[Names, Sums]) -> dict[Names, Sums]:
    """Return the ``MAX_GROUPS`` groups with the highest cost."""
    cost = 4  # in the order of ``list_sums``
    largest = sorted(listed.items(), key=lambda each: each[1][cost], reverse=True)
    return dict(largest[:MAX_GROUPS])


def _find_rest(
    db: sqlite3.Connection,
    source: _Source,
    whole: Sums,
    listed: Mapping[Names, Sums],
    first: str,
    end: str,
) -> Sums | None:
    """Return the sums of all calls minus those of the listed groups, or None if nothing is left."""
    if source.table == "agents_daily":
        whole = db.execute(_select(source, "''"), (first, end)).fetchone()[1:]
    return take_out(whole, listed.values())
