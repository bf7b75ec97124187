"""Counts of the later calls that have a text too.

There is no list of the calls that have a piece. So later requests are read: those of the same
session or, for system prompts and tools, which all sessions of a program share, those of all
sessions. A request that continues a message thread has all texts of the earlier calls in the thread
and of their responses, although it sends neither."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

import orjson

from store.traces.calls import threads
from store.traces.search.request_walker import read_lists

MAX_COUNT = 1_000
_MAX_LOOKED_AT = 2_000
_AT_ONCE = 200


class Wanted(NamedTuple):
    """A text whose calls are counted, and its first call.

    ``source`` is a piece or, below zero, a response. ``is_everywhere``: calls of all sessions count."""

    source: int
    usage_id: int
    is_everywhere: bool


def count_later_calls(
    db: sqlite3.Connection,
    wanted: Sequence[Wanted],
    clock_s: Callable[[], float],
    ends_at_s: float,
) -> list[tuple[int, bool]]:
    """Return for each text (number of later calls that have it, whether there may be more).

    Calls of other sessions count only if ``is_everywhere``. Counting stops at ``ends_at_s``."""
    segments: dict[int, frozenset[int]] = {}
    find_parent = cache(partial(threads.find_parent, db)) if threads.has_threads(db) else None
    return [
        _count(db, each, segments, find_parent, lambda: clock_s() >= ends_at_s) for each in wanted
    ]


def _count(
    db: sqlite3.Connection,
    wanted: Wanted,
    segments: dict[int, frozenset[int]],
    find_parent: Callable[[int], int | None] | None,
    is_over: Callable[[], bool],
) -> tuple[int, bool]:
    pieces = _list_pieces(db, wanted.source)
    if not pieces and (find_parent is None or not threads.is_continued(db, wanted.usage_id)):
        return 0, False
    has_piece: dict[int, bool] = {}
    having = {wanted.usage_id}
    looked_at = 0
    for calls in _iter_calls(db, wanted):
        _read_segments(db, {each for ids in calls.values() for each in ids}, segments)
        for usage_id, ids in calls.items():
            for each in ids:
                if each not in has_piece:
                    has_piece[each] = not pieces.isdisjoint(segments.get(each, ()))
            if any(has_piece[each] for each in ids) or (
                find_parent is not None and find_parent(usage_id) in having
            ):
                having.add(usage_id)
            if len(having) - 1 > MAX_COUNT:
                return MAX_COUNT, True
        looked_at += len(calls)
        if is_over() or looked_at >= _MAX_LOOKED_AT:
            return len(having) - 1, True
    return len(having) - 1, False


def _list_pieces(db: sqlite3.Connection, source: int) -> frozenset[int]:
    """Return the ids of the pieces that have the text of ``source``."""
    copies = db.execute("select piece_id from search_pieces where copy_of = ?", (source,))
    return frozenset(row[0] for row in copies) | ({source} if source > 0 else frozenset())


def _iter_calls(db: sqlite3.Connection, wanted: Wanted) -> Iterator[dict[int, list[int]]]:
    """Yield segment lists of later calls by row id, some at a time and oldest first."""
    session = db.execute(
        "select u.session_id, n.first_id from usage as u"
        " left join unnamed_calls as n on n.usage_id = u.id where u.id = ?",
        (wanted.usage_id,),
    ).fetchone()
    session_id, first_id = session or (None, None)
    after_id = wanted.usage_id
    where: str
    values: tuple[object, ...]
    if wanted.is_everywhere or (session_id is None and first_id is None):
        where, values = "", ()
    elif session_id is not None:
        where, values = (
            " and q.usage_id in (select id from usage where session_id = ?)",
            (session_id,),
        )
    else:
        where, values = (
            " and q.usage_id in (select usage_id from unnamed_calls where first_id = ?)",
            (first_id,),
        )
    sql = (
        "select q.usage_id, q.segment_ids from request_bodies as q"  # noqa: S608 - our own text
        f" where q.segment_ids is not null and q.usage_id > ?{where} order by 1 limit {_AT_ONCE}"
    )
    while rows := db.execute(sql, (after_id, *values)).fetchall():
        yield {usage_id: orjson.loads(ids) for usage_id, ids in rows}
        after_id = rows[-1][0]
        if len(rows) < _AT_ONCE:
            return


def _read_segments(
    db: sqlite3.Connection, ids: set[int], segments: dict[int, frozenset[int]]
) -> None:
    missing = [each for each in ids if each not in segments]
    for segment_id, piece_ids in read_lists(db, missing).items():
        segments[segment_id] = frozenset(piece_ids)
