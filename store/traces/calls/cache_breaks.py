"""The cache breaks of calls, as ``conversations.cache_breaks`` finds and explains them.

They are stored when the call is recorded, so they outlive the bodies that explain them.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from typing import Any, NamedTuple

from store.database import bind_list
from store.traces.sessions import unnamed_sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheBreak:
    """A cache break of a call.

    The fields before ``found_by`` are measured; ``found_by`` and the fields after it are inferred.
    ``method`` is the version of the rules. ``tokens`` were written again or sent uncached, and
    ``extra_cost_cents`` is their cost above that of reading them, None if a price is unknown."""

    previous_entry_id: str
    method: int
    prefix_tokens: int
    read_tokens: int
    tokens: int
    gap_ms: int
    extra_cost_cents: float | None
    estimated: bool
    found_by: str
    cause: str
    detail: str
    upstream_reason: str | None
    upstream_tokens: int | None


class BrokenCall(NamedTuple):
    """A call that broke the cache, by row id and entry id."""

    usage_id: int
    entry_id: str
    found: CacheBreak


_COLUMNS = tuple(field.name for field in fields(CacheBreak))
_SELECT = ", ".join(f"b.{name}" for name in _COLUMNS)
_WRITE = (
    f"insert or replace into cache_breaks (usage_id, {', '.join(_COLUMNS)})"  # noqa: S608 - our own names
    f" values (?, {', '.join('?' * len(_COLUMNS))})"
)


def write_break(connection: sqlite3.Connection, usage_id: int, found: CacheBreak | None) -> None:
    """Store the cache break of a call, in place of an earlier result. None: the call broke no cache.

    The caller holds the write lock."""
    if found is None:
        connection.execute("delete from cache_breaks where usage_id = ?", (usage_id,))
    else:
        connection.execute(_WRITE, (usage_id, *astuple(found)))


def find_break(connection: sqlite3.Connection, usage_id: int) -> CacheBreak | None:
    """Return the cache break of a call, or None."""
    return next((each.found for each in read_breaks(connection, [usage_id])), None)


def read_breaks(connection: sqlite3.Connection, usage_ids: Iterable[int]) -> list[BrokenCall]:
    """Return those of the calls that broke the cache, in the order of arrival."""
    return _read(
        connection,
        "b.usage_id in (select value from json_each(:ids))",
        {"ids": bind_list(usage_ids)},
    )


def read_session_breaks(connection: sqlite3.Connection, session_id: str) -> list[BrokenCall]:
    """Return the calls of a session that broke the cache, in the order of arrival.

    The session may be one that the client does not name."""
    return _read(
        connection,
        f"b.usage_id in ({unnamed_sessions.CALLS})",
        unnamed_sessions.bind(session_id),
    )


def _read(connection: sqlite3.Connection, where: str, values: dict[str, Any]) -> list[BrokenCall]:
    cursor = connection.cursor()
    cursor.row_factory = None
    rows = cursor.execute(
        f"select {_SELECT}, b.usage_id, u.entry_id from cache_breaks as b join usage as u on u.id = b.usage_id"  # noqa: S608 - our own text
        f" where {where} order by u.created_at, u.id",
        values,
    )
    return [BrokenCall(row[-2], row[-1], _make(row[:-2])) for row in rows]


def _make(values: tuple[Any, ...]) -> CacheBreak:
    row = dict(zip(_COLUMNS, values, strict=True))
    return CacheBreak(**row | {"estimated": bool(row["estimated"])})
