"""The calls of a session in the order of their arrival, with only the columns that a drawing needs."""

import sqlite3
from collections.abc import Iterable
from typing import NamedTuple

from metering.entry import NO_ERROR
from store.database import list_columns
from store.traces.sessions import unnamed_sessions

MAX_PLACES = 2_000
MAX_TARGETS = 200


class Place(NamedTuple):
    """A call in its session. ``cost_cents`` is None if unknown."""

    usage_id: int
    cost_cents: float | None
    broke_cache: bool
    is_failed: bool = False


def list_places(db: sqlite3.Connection, session_id: str) -> list[Place] | None:
    """Return the calls of a session, oldest first, or None if there are too many to read.

    Raises sqlite3.Error."""
    rows = db.execute(
        "select u.id, u.cost_cents, b.usage_id is not null, u.outcome from usage as u"  # noqa: S608 - our own text
        " left join cache_breaks as b on b.usage_id = u.id"
        f" where u.id in ({unnamed_sessions.CALLS}) order by u.created_at, u.id limit :most",
        unnamed_sessions.bind(session_id) | {"most": MAX_PLACES + 1},
    ).fetchall()
    if len(rows) > MAX_PLACES:
        return None
    return [
        Place(usage_id, cents, bool(broke), outcome not in NO_ERROR)
        for usage_id, cents, broke, outcome in rows
    ]


def number_turns(places: Iterable[Place]) -> dict[int, int]:
    """Return the numbers of turns by row id, as shown on the page of the session: failed calls have none."""
    turns = (place for place in places if not place.is_failed)
    return {place.usage_id: number for number, place in enumerate(turns, 1)}


def list_targets(db: sqlite3.Connection, session_id: str) -> list[str | None]:
    """Return targets of tools used in the first calls of a session, from which its project is found.

    Empty if the recorder has not created the table yet. Raises sqlite3.Error."""
    if not list_columns(db, "tool_uses"):
        return []
    rows = db.execute(
        "select target from tool_uses where usage_id in"  # noqa: S608 - our own text
        f" (select id from ({unnamed_sessions.CALLS}) order by id limit :most)"
        " and target is not null limit :most",
        unnamed_sessions.bind(session_id) | {"most": MAX_TARGETS},
    )
    return [target for (target,) in rows]
