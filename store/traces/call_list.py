"""Calls with all columns of ``usage_log``, page by page, as the API lists them and exports have them.

They are in the order of their arrival. The place of a page is the instant and the entry id of the call before
it, which are the same in every copy of a cluster: a list that begins in one may go on in another.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from runtime.errors import InvalidCursorError
from store.pagination import decode_cursor, encode_cursor
from store.traces.reader import BODIES, EntryFilter, Row, TraceReader

SEARCHED = 50_000  # calls, for a page of those that a filter chooses: some tenths of a second
PAGE_BYTES = 8 << 20  # of bodies: the call that reaches this is the last one of its page


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPage:
    """A page of calls. ``columns`` has the type that each column is declared with."""

    columns: Mapping[str, str]
    items: Sequence[Row]
    next_cursor: str | None = None


def read_calls(
    path: Path,
    organization_id: str,
    entry_filter: EntryFilter,
    cursor: str | None,
    limit: int,
    *,
    with_bodies: bool,
) -> CallPage:
    """Return a page of the calls in a trace database, none while nothing has been recorded.

    Where few calls are chosen it has fewer than the limit, or none, and is not the last one.
    Raises InvalidCursorError, sqlite3.Error."""
    place = (entry_filter.since or "", "") if cursor is None else _parse_cursor(cursor)
    columns = {"organization_id": "text"} | dict.fromkeys(BODIES if with_bodies else (), "text")
    if not path.exists():
        return CallPage(columns=columns, items=())
    with TraceReader(path) as reader:
        if not reader.is_ready:
            return CallPage(columns=columns, items=())
        end = _find_end(reader, entry_filter, place)
        searched = entry_filter if end is None else replace(entry_filter, until=end)
        rows = reader.read_page(searched, place, limit + 1)
        page, left = rows[:limit], len(rows) > limit
        types = {name: declared for name, declared in reader.types.items() if name not in BODIES}
        items, size = list[Row](), 0
        behind = _find_place(page[-1]) if left else None if end is None else (end, "")
        for number, row in enumerate(page):
            item = make_item(organization_id, row)
            if with_bodies:
                bodies = reader.read_bodies(row["id"])
                if bodies is None:
                    continue  # removed by retention since its page was read
                size += sum(len(bodies[name] or "") for name in BODIES)
                item |= {name: _as_json(bodies[name]) for name in BODIES}
            items.append(item)
            if size >= PAGE_BYTES and number < len(page) - 1:
                behind = _find_place(row)
                break
    return CallPage(
        columns={"organization_id": "text"} | types | columns,
        items=items,
        next_cursor=None if behind is None else _format_cursor(behind),
    )


def _find_end(reader: TraceReader, entry_filter: EntryFilter, place: tuple[str, str]) -> str | None:
    """Return where to stop searching for calls that a filter chooses, None where that is not needed.

    A page of all calls ends by itself when it is full."""
    if not entry_filter.slugs and entry_filter.model is None:
        return None
    end = reader.find_arrival(place[0], SEARCHED)
    is_sooner = end is not None and (entry_filter.until is None or end < entry_filter.until)
    return end if is_sooner else None


def make_item(organization_id: str, row: Row) -> Row:
    """Return an entry as it is exported: the columns of ``usage_log``, and the organisation."""
    return {"organization_id": organization_id} | row


def _as_json(body: str | bytes | None) -> Any:
    """Return a body for JSON. A body that is not text is written as Datasette writes it."""
    if isinstance(body, bytes):
        return {"$base64": True, "encoded": base64.b64encode(body).decode()}
    return body


def _find_place(row: Row) -> tuple[str, str]:
    return row["created_at"], row["entry_id"]


def _format_cursor(place: tuple[str, str]) -> str:
    return encode_cursor(orjson.dumps(place).decode())


def _parse_cursor(cursor: str) -> tuple[str, str]:
    try:
        created_at, entry_id = orjson.loads(decode_cursor(cursor))
    except (ValueError, TypeError) as error:
        raise InvalidCursorError from error
    if not (isinstance(created_at, str) and isinstance(entry_id, str)):
        raise InvalidCursorError
    return created_at, entry_id
