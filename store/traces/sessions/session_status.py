"""Reading of the status of a session, for the status line of its client."""

import sqlite3
from datetime import datetime, timedelta

from metering.status_line import SessionStatus
from runtime import clock
from store.traces.calls import cache_breaks
from store.traces.sessions.session_reader import SIDE_CALL, SessionReader

SHORT_LIFE, LONG_LIFE = timedelta(minutes=5), timedelta(hours=1)
_LAST_CALLS = 50

_CALLS = (
    "select created_at, cache_creation_input_tokens, cache_write_1h_tokens from usage"
    " where session_id = ? and agent_id is null and coalesce(request_class, '') <> ?"
    " and cache_creation_input_tokens + cache_read_input_tokens > 0 order by created_at desc limit ?"
)


def read_status(connection: sqlite3.Connection, session_id: str) -> SessionStatus | None:
    """Return cost so far, end of the cache lifetime and cost of the last cache break of a session.

    None if the session has no calls. Raises sqlite3.Error."""
    reader = SessionReader(connection)
    session = reader.find(session_id) if reader.is_ready else None
    if session is None:
        return None
    breaks = cache_breaks.read_session_breaks(connection, session_id)
    costs = [each.found.extra_cost_cents for each in breaks[-1:]]
    return SessionStatus(
        cost_cents=session.cost_cents,
        estimated_cents=session.estimated_cents,
        value_cents=session.value_cents,
        slug=session.slug,
        cached_until=_find_cached_until(connection, session_id),
        break_cents=costs[0] if costs else None,
    )


def _find_cached_until(connection: sqlite3.Connection, session_id: str) -> datetime | None:
    """Return the earliest instant at which the cache of the main agent can expire, or None without calls.

    Each use renews the cache, for the lifetime that it was last written with."""
    calls = connection.execute(_CALLS, (session_id, SIDE_CALL, _LAST_CALLS)).fetchall()
    if not calls:
        return None
    writes = (long or 0 for _, written, long in calls if written)
    life = LONG_LIFE if next(writes, 0) else SHORT_LIFE
    return clock.parse_instant(calls[0][0]) + life
