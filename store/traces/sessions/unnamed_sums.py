"""The sums of unnamed sessions by day, read from their calls.

The sums of agents by day are kept by the session id that a client sends. An unnamed session is
known only at its second call, after the first one was summed. So sums of the most expensive unnamed
sessions are read from their calls, which an index finds."""

import sqlite3

from store.database import bind_list
from store.traces.sessions import agent_sums, unnamed_sessions
from store.traces.sums.sum_columns import Sums, list_sums

MAX_SESSIONS = 300
_LARGEST = (
    "select substr(session_id, ?) from sessions where ended_at >= ? and started_at < ?"  # noqa: S608 - our own text
    f" and session_id glob '{unnamed_sessions.PREFIX}*' order by cost_cents desc limit ?"
)
_CALLS = (
    f"select substr(u.created_at, 1, 10) as day, '{unnamed_sessions.PREFIX}' || n.first_id as session_id,"  # noqa: S608 - our own text
    f" {', '.join(f'{sql} as {name}' for name, sql in agent_sums.SUMS.items())}"
    " from unnamed_calls as n join usage as u on u.id = n.usage_id"
    " where n.first_id in (select value from json_each(?)) and u.session_id is null"
    " and u.created_at >= ? and u.created_at < ?"
)


def read_unnamed(
    db: sqlite3.Connection, first_day: str, end_day: str
) -> dict[tuple[str, str], Sums]:
    """Return sums by (day, session) for the most expensive unnamed sessions of a period.

    The period is from ``first_day`` to before ``end_day``. Raises sqlite3.Error."""
    place = len(unnamed_sessions.PREFIX) + 1
    found = db.execute(_LARGEST, (place, first_day, end_day, MAX_SESSIONS)).fetchall()
    ids = [int(row[0]) for row in found if row[0].isdigit()]
    if not ids:
        return {}
    rows = db.execute(
        f"select day, session_id, {', '.join(list_sums({*agent_sums.SUMS}))} from ({_CALLS}) group by 1, 2",  # noqa: S608 - our own text
        (bind_list(ids), first_day, end_day),
    )
    return {row[:2]: row[2:] for row in rows}
