"""Judgements of calls: which call each continues, and whether it broke the cache.

They are written in the transaction that inserts the calls, or by themselves for calls that are stored
already: a slow call may be stored after the call that continues it, which is then judged again.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from store import database
from store.traces.backfill_progress import JUDGED_LAST, JUDGED_UP_TO, find_next, write_next
from store.traces.calls import cache_breaks, predecessors
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.sessions import session_sums, unnamed_sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement of a call: its predecessor and its break.

    Both calls are named by their entry ids. ``failed_tools`` are the names of tools that failed in between,
    joined by commas."""

    entry_id: str
    previous_entry_id: str
    failed_tools: str | None = None
    cache_break: CacheBreak | None = None


class StoredCall(NamedTuple):
    """A call that is stored, by its row id."""

    id: int
    session_id: str | None


NONE_NEW: Mapping[str, StoredCall] = MappingProxyType({})


def write_judgements(
    connection: sqlite3.Connection,
    judgements: Sequence[Judgement],
    new: Mapping[str, StoredCall] = NONE_NEW,
) -> None:
    """Store judgements of calls that are stored, and carry them into the sums of sessions.

    ``new`` are calls by entry id that are not in these sums yet and will be added. A call that is
    gone is passed over. Wants the write lock."""
    new_ids = {call.id for call in new.values()}
    unjudged = set(new_ids)  # those of which there is no break to be taken back
    for each in judgements:
        call = new.get(each.entry_id) or _find(connection, each.entry_id)
        if call is None:
            continue
        is_new = call.id in new_ids
        if not is_new:
            _book(connection, [call.id], sign=-1)
        previous = new.get(each.previous_entry_id) or _find(connection, each.previous_entry_id)
        if previous is not None:
            predecessors.write_previous(connection, call.id, previous.id, each.failed_tools)
        if each.cache_break is not None or call.id not in unjudged:
            cache_breaks.write_break(connection, call.id, each.cache_break)
        unjudged.discard(call.id)
        joined: set[int] = set()
        if call.session_id is None and previous is not None:
            joined.update(unnamed_sessions.join(connection, call.id, previous.id))
        _book(connection, [id_ for id_ in {call.id, *joined} if id_ not in new_ids], sign=1)


def _find(connection: sqlite3.Connection, entry_id: str) -> StoredCall | None:
    row = connection.execute(
        "select id, session_id from usage where entry_id = ?", (entry_id,)
    ).fetchone()
    return None if row is None else StoredCall(*row)


def write_past(
    connection: sqlite3.Connection, judgements: Sequence[Judgement], up_to_id: int | None
) -> None:
    """Store judgements of earlier calls and note that all are judged up to this one, None for the last.

    Raises sqlite3.Error."""
    with database.immediate(connection):
        write_judgements(connection, judgements)
        write_next(connection, JUDGED_UP_TO, up_to_id)
        if up_to_id is None:
            write_next(connection, JUDGED_LAST, None)


def find_unjudged(connection: sqlite3.Connection, after_id: int) -> int | None:
    """Return the oldest call after this one that is still to be judged, None where none is left."""
    last_id = find_next(connection, JUDGED_LAST)
    if last_id is None:
        return None
    row = connection.execute(
        "select min(id) from usage where id > ? and id <= ?", (after_id, last_id)
    ).fetchone()
    return None if row[0] is None else int(row[0])


def _book(connection: sqlite3.Connection, ids: Sequence[int], *, sign: int) -> None:
    """Add calls to the sums of their sessions or take them out, as far as they are to be in them."""
    booked = [each for each in ids if session_sums.is_booked(connection, each)]
    if booked:
        session_sums.book(connection, booked, sign=sign)
