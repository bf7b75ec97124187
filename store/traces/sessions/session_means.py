"""The sums that mean costs of sessions and prompts are made of, by the day a session ended."""

import sqlite3
from dataclasses import dataclass

from store.database import list_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDay:
    """The sums of the sessions that ended on a day. ``prompts`` is None where they are not counted."""

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
    rows = db.execute(
        f"select substr(ended_at, 1, 10), count(*), {prompts}, total(cost_cents) from sessions"  # noqa: S608
        " where ended_at >= ? and ended_at < ? group by 1 order by 1",
        (start, end),
    )
    return [
        SessionDay(day=day, sessions=sessions, prompts=prompts, cents=cents)
        for day, sessions, prompts, cents in rows
    ]
