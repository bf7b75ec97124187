"""Rows of calls for a list, newest first, with the columns of its lines."""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from metering.token_counts import NAMES
from store.database import bind_list, list_columns, make_dict
from store.traces.sessions.unnamed_sessions import SESSION

# Of calls that no index chooses, so many are looked at for a page: some tenths of a second at most.
SEARCHED = 50_000
_COLUMNS = (
    "id",
    "entry_id",
    "created_at",
    "slug",
    "model",
    "request_model",
    "outcome",
    "status_code",
    "error_type",
    "stop_reason",
    "usage_source",
    "title_text",
    "said_text",
    "agent_id",
    "retry_count",
    "credential_hmac",
    "upstream_request_id",
    "tags",
    "duration_ms",
    "ttfb_ms",
    "cost_cents",
    *NAMES,
)

type Row = Mapping[str, Any]
type Place = tuple[str, int]  # ``created_at`` and row id of a call


class Chosen(NamedTuple):
    """An SQL condition on the calls of a list, over ``usage as u``, with the values of its placeholders."""

    sql: str
    values: Sequence[str | int | float]


class ListedCalls(NamedTuple):
    """A page of a list. The next page begins after the place ``behind``, None on the last page."""

    rows: Sequence[Row]
    behind: Place | None


class ListedSession(NamedTuple):
    """The title and the sums of a session."""

    title: str | None
    calls: int
    cost_cents: float


def list_calls(
    db: sqlite3.Connection, chosen: Chosen, before: Place | None, limit: int
) -> ListedCalls:
    """Return up to ``limit`` chosen calls after the place ``before``, newest first. Raises sqlite3.Error.

    If ``chosen`` selects few calls, the page ends after ``SEARCHED`` calls with less than ``limit``."""
    there = list_columns(db, "usage")
    columns = ", ".join(f"u.{name}" if name in there else f"null as {name}" for name in _COLUMNS)
    is_behind, place = (
        ("", ()) if before is None else (" and (u.created_at, u.id) < (?, ?)", before)
    )
    end = _find_end(db, before) if chosen.sql != "true" else None
    until, last = ("", ()) if end is None else (" and (u.created_at, u.id) >= (?, ?)", end)
    cursor = db.cursor()
    cursor.row_factory = make_dict
    rows = cursor.execute(
        f"select {columns}, {SESSION} as session from usage as u"  # noqa: S608 - our own text
        f" where {chosen.sql}{is_behind}{until} order by u.created_at desc, u.id desc limit ?",
        (*chosen.values, *place, *last, limit + 1),
    ).fetchall()
    if len(rows) > limit:
        rows = rows[:limit]
        return ListedCalls(rows, (rows[-1]["created_at"], rows[-1]["id"]))
    return ListedCalls(rows, end)


def read_sessions(db: sqlite3.Connection, names: Sequence[str]) -> dict[str, ListedSession]:
    """Return the titles and sums of sessions by id, as far as they are known. Raises sqlite3.Error."""
    if not list_columns(db, "sessions"):
        return {}
    rows = db.execute(
        "select session_id, title, calls, cost_cents from sessions"
        " where session_id in (select value from json_each(?))",
        (bind_list(names),),
    )
    return {name: ListedSession(title, calls, cents) for name, title, calls, cents in rows}


def _find_end(db: sqlite3.Connection, before: Place | None) -> Place | None:
    """Return the place of the last call to look at for a page, or None if fewer calls are left."""
    is_behind, place = ("", ()) if before is None else ("where (created_at, id) < (?, ?)", before)
    row = db.execute(
        f"select created_at, id from usage {is_behind}"  # noqa: S608 - our own text
        " order by created_at desc, id desc limit 1 offset ?",
        (*place, SEARCHED - 1),
    ).fetchone()
    return None if row is None else (row[0], row[1])
