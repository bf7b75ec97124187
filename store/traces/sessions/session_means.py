"""Sums by the day a session ended, from which mean costs of sessions and prompts are computed."""

import sqlite3
from dataclasses import dataclass

from store.database import list_columns, read_records


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDay:
    """The sums of the sessions that ended on a day. ``prompts`` is None if they are not counted."""

    day: str
    sessions: int
    prompts: int | None
    cents: float


def read_session_days(db: sqlite3.Connection, start: str, end: str) -> list[SessionDay]:
    """Return the days from the instant ``start`` until before ``end`` on which sessions ended.

    Raises sqlite3.Error."""
    columns = list_columns(db, "sessions")
    if not columns:
        return []
    prompts = "sum(prompts)" if "prompts" in columns else "null"
    return read_records(
        db,
        SessionDay,
        f"select substr(ended_at, 1, 10) as day, count(*) as sessions, {prompts} as prompts,"  # noqa: S608
        " total(cost_cents) as cents from sessions"
        " where ended_at >= ? and ended_at < ? group by 1 order by 1",
        (start, end),
    )
