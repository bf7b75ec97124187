"""Managed sessions and dreams as an export writes them and an import reads them: one JSON object each.

Each has the columns of ``upstream_objects`` and the organisation. Counts are cumulative: of two
lines for an object, the one with the later ``read_at`` is current."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from metering.token_counts import TokenCounts
from metering.upstream_objects import UpstreamObject
from runtime.errors import InvalidCursorError
from store.database import open_readonly
from store.pagination import decode_cursor, encode_cursor
from store.traces.calls.line_fields import (
    LineError,
    is_instant,
    list_fields,
    read_field,
    read_fields,
)
from store.traces.calls.reader import BUSY_TIMEOUT_S, EntryFilter, Row, read_types
from store.traces.calls.upstream_objects import Reading

TABLE, KEY = "upstream_objects", "object_id"
MAX_ID_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedObject:
    """A managed session or dream in a line, with the response that last reported it."""

    organization_id: str
    reading: Reading
    found: UpstreamObject


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPage:
    """A page of managed sessions and dreams.

    ``columns`` has the declared type of each column; ``next_cursor`` is None on the last page."""

    columns: Mapping[str, str]
    items: Sequence[Row] = ()
    next_cursor: str | None = None


def read_objects(
    path: Path, organization_id: str, only: EntryFilter, cursor: str | None, limit: int
) -> ObjectPage:
    """Return a page of the managed sessions and dreams in a trace database, in the order of their ids.

    Empty if there is no database. ``only`` filters by the instant of creation (or of reading, if there
    is none) and by slug; its ``model`` is ignored. Raises InvalidCursorError, sqlite3.Error."""
    columns = {"organization_id": "text"}
    after = "" if cursor is None else _parse_cursor(cursor)
    if not path.exists():
        return ObjectPage(columns=columns)
    with closing(open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        types = read_types(connection, TABLE)
        if not types:  # no newer recorder has opened it yet
            return ObjectPage(columns=columns)
        where, values = _make_conditions(only)
        rows = connection.execute(
            f"select {', '.join(types)} from {TABLE} where {KEY} > ? and {where}"  # noqa: S608 - its own names
            f" order by {KEY} limit ?",
            (after, *values, limit + 1),
        ).fetchall()
    items = [
        {"organization_id": organization_id, **dict(zip(types, row, strict=True))}
        for row in rows[:limit]
    ]
    return ObjectPage(
        columns=columns | types,
        items=items,
        next_cursor=encode_cursor(items[-1][KEY]) if len(rows) > limit else None,
    )


def is_object(row: Row) -> bool:
    """Return whether a row is of a managed session or dream, and not of a call."""
    return KEY in row and "entry_id" not in row


def parse_object_row(row: Row) -> ExportedObject:
    """Return the managed session or dream in a row. Raises LineError."""
    known = {
        name: read_field(name, row, kind)
        for name, kind in list_fields(UpstreamObject).items()
        if name != "tokens"
    }
    reading = Reading(**read_fields(Reading, row))
    if not 0 < len(known[KEY]) <= MAX_ID_CHARS:
        raise LineError(f"its {KEY} is none")
    for name, text in (("read_at", reading.read_at), ("created_at", known["created_at"])):
        if text is not None and not is_instant(text):
            raise LineError(f"its {name} is not like 2026-01-31T14:03:27.123Z")
    return ExportedObject(
        organization_id=read_field("organization_id", row, str),
        reading=reading,
        found=UpstreamObject(**known, tokens=TokenCounts(**read_fields(TokenCounts, row))),
    )


def find_known_objects(path: Path, newest: Mapping[str, str]) -> set[str]:
    """Return the ids of objects that a trace database has as read at ``newest`` or later.

    ``newest`` has ``read_at`` by id. Raises sqlite3.Error."""
    if not newest or not path.exists():
        return set()
    with closing(open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        if not read_types(connection, TABLE):
            return set()
        found = connection.execute(
            f"select {KEY} from {TABLE} join json_each(?) on key = {KEY} where read_at >= value",  # noqa: S608 - our own names
            (orjson.dumps(dict(newest)).decode(),),
        )
        return {object_id for (object_id,) in found}


def _make_conditions(only: EntryFilter) -> tuple[str, list[Any]]:
    at = "coalesce(created_at, read_at)"
    conditions, values = ["true"], []
    for condition, value in ((f"{at} >= ?", only.since), (f"{at} < ?", only.until)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if only.slugs:
        conditions.append(f"slug in ({', '.join('?' * len(only.slugs))})")
        values += only.slugs
    return " and ".join(conditions), values


def _parse_cursor(cursor: str) -> str:
    after = decode_cursor(cursor)
    if not after:
        raise InvalidCursorError
    return after
