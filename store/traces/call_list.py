"""Calls with all columns of ``usage_log``, page by page, as the API lists them and exports have them.

They are in the order of their arrival. The place of a page is the instant and the entry id of the call before
it, which are the same in every copy of a cluster: a list that begins in one may go on in another.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from runtime.errors import InvalidCursorError
from store.pagination import decode_cursor, encode_cursor
from store.traces.reader import BODIES, EntryFilter, Row, TraceReader

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

    Raises InvalidCursorError, sqlite3.Error."""
    place = None if cursor is None else _parse_cursor(cursor)
    columns = {"organization_id": "text"} | dict.fromkeys(BODIES if with_bodies else (), "text")
    if not path.exists():
        return CallPage(columns=columns, items=())
    with TraceReader(path) as reader:
        rows = reader.read_page(entry_filter, place, limit + 1) if reader.is_ready else []
        page, left = rows[:limit], len(rows) > limit
        types = {name: declared for name, declared in reader.types.items() if name not in BODIES}
        items, size = list[Row](), 0
        last = page[-1] if page else None
        for number, row in enumerate(page):
            item = make_item(organization_id, row)
            if with_bodies:
                bodies = reader.read_bodies(row["id"])
                if bodies is None:
                    continue  # removed by retention since its page was read
                size += sum(len(bodies[name] or "") for name in BODIES)
                item |= {name: _as_json(bodies[name]) for name in BODIES}
            items.append(item)
            if size >= PAGE_BYTES:
                last, left = row, left or number < len(page) - 1
                break
    return CallPage(
        columns={"organization_id": "text"} | types | columns,
        items=items,
        next_cursor=None if last is None or not left else _format_cursor(last),
    )


def make_item(organization_id: str, row: Row) -> Row:
    """Return an entry as it is exported: the columns of ``usage_log``, and the organisation."""
    return {"organization_id": organization_id} | row


def _as_json(body: str | bytes | None) -> Any:
    """Return a body for JSON. A body that is not text is written as Datasette writes it."""
    if isinstance(body, bytes):
        return {"$base64": True, "encoded": base64.b64encode(body).decode()}
    return body


def _format_cursor(row: Row) -> str:
    return encode_cursor(orjson.dumps([row["created_at"], row["entry_id"]]).decode())


def _parse_cursor(cursor: str) -> tuple[str, str]:
    try:
        created_at, entry_id = orjson.loads(decode_cursor(cursor))
    except (ValueError, TypeError) as error:
        raise InvalidCursorError from error
    if not (isinstance(created_at, str) and isinstance(entry_id, str)):
        raise InvalidCursorError
    return created_at, entry_id
