"""Judgements of calls: the call that each continues, and whether it broke the cache.

They are written in the transaction that inserts the calls. A slow call may be stored after the call
that continues it, which is then judged again."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from metering.tool_results import UseResult
from store.traces.calls import cache_breaks, predecessors, tool_uses
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.sessions import session_sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judgement of a call: its predecessor and its cache break.

    Both calls are named by entry ids. ``failed_tools`` are the names of tools that failed between both
    calls, joined by commas. ``results`` are the results of the tool uses in the predecessor's response."""

    entry_id: str
    previous_entry_id: str
    failed_tools: str | None = None
    cache_break: CacheBreak | None = None
    results: Sequence[UseResult] = ()


class StoredCall(NamedTuple):
    """A stored call: its row id and its session."""

    id: int
    session_id: str | None


def write_judgements(
    connection: sqlite3.Connection,
    judgements: Sequence[Judgement],
    new: Mapping[str, StoredCall],
) -> None:
    """Store judgements of stored calls, and add them to the sums of sessions.

    ``new`` has, by entry id, the calls that are not in these sums yet and will be added. A call that is
    gone is skipped. The caller holds the write lock."""
    new_ids = {call.id for call in new.values()}
    unjudged = set(new_ids)  # those of which there is no break to be taken back
    for each in judgements:
        call = new.get(each.entry_id) or _find(connection, each.entry_id)
        if call is None:
            continue
        is_new = call.id in new_ids
        if not is_new:
            session_sums.book(connection, [call.id], sign=-1)
        previous = new.get(each.previous_entry_id) or _find(connection, each.previous_entry_id)
        continued: list[int] = []
        if previous is not None:
            continued = predecessors.write_previous(
                connection, call.id, previous.id, each.failed_tools
            )
            if each.results:
                tool_uses.write_results(
                    connection,
                    previous.id,
                    each.results,
                    is_booked=previous.id not in new_ids,
                )
        if each.cache_break is not None or call.id not in unjudged:
            cache_breaks.write_break(connection, call.id, each.cache_break)
        unjudged.discard(call.id)
        joined: set[int] = set()
        if call.session_id is None and previous is not None:
            joined.update(session_sums.join(connection, call.id, previous.id))
        if later := [id_ for id_ in continued if id_ not in new_ids | joined]:
            session_sums.book(connection, later, sign=0)
        stored = [id_ for id_ in {call.id, *joined} if id_ not in new_ids]
        if stored:
            session_sums.book(connection, stored)


def _find(connection: sqlite3.Connection, entry_id: str) -> StoredCall | None:
    row = connection.execute(
        "select id, session_id from usage where entry_id = ?", (entry_id,)
    ).fetchone()
    return None if row is None else StoredCall(*row)
