"""Removing the oldest entries, and what only they used, while others keep recording.

The pieces of a removed entry may be shared with entries that stay. Unused ones are found by mark and
sweep: the transaction that removes an entry notes its segments as *loose*. Then the segment lists of
all remaining entries are read, without any lock, and the segments in them are no longer loose. The
others are deleted in short transactions, each of which first checks the lists of entries recorded in the
meantime: ids only grow, so those are the ones above the last id seen. The pieces of deleted segments are
deleted in the same way. A recorder cannot use a deleted id from its memory, because it forgets its ids
when another connection has committed (see ``store.traces.bodies``).

A run that is killed leaves loose rows, never a reference to a deleted one, and the next run continues
with them. Two runs at once on one database are safe for every body, but may leave a piece that no
segment uses.

The write lock is held for some 20 ms at a time. The pauses between are longer than the longest sleep of
SQLite's busy handler, so that a recorder that waits 100 ms for the lock gets it.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypedDict, Unpack

import orjson

from store.database import immediate
from store.traces import session_sums
from store.traces.search import index as search_index, removal as search_removal

LOCK_S = 0.02
PAUSE_S = 0.03
PATIENCE_MS = 10_000  # no client waits for retention, so it can wait for all others
_ROUND_ENTRIES = 50_000  # between two sweeps; bounds the ids held in memory
_VACUUM_PAGES = 256
# What an entry has in other tables, by ``usage_id``.
_DETAILS = (
    "request_bodies",
    "response_bodies",
    "usage_cost",
    "rate_limits",
    "predecessors",
    "cache_breaks",
)

type Pause = Callable[[float], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    entries: int
    bytes_before: int
    bytes_after: int


class Rules(TypedDict, total=False):
    """The entries to remove: those created before an instant, then the oldest until the rest fits."""

    before: str | None
    max_bytes: int | None


def prune(
    connection: sqlite3.Connection, *, pause: Pause = time.sleep, **rules: Unpack[Rules]
) -> Pruned:
    """Remove entries by these rules and return their space to the file system. Hourly sums stay.

    Raises sqlite3.Error; the database is consistent then too."""
    with _patient(connection):
        bytes_before = used_bytes(connection)
        sweep(connection, pause)  # loose rows of a run that was killed
        entries = 0
        if (before := rules.get("before")) is not None:
            entries += _prune_by_age(connection, before, pause)
        if (max_bytes := rules.get("max_bytes")) is not None:
            entries += _prune_by_size(connection, max_bytes, pause)
        if entries:
            search_removal.settle(
                connection, lambda work: _in_steps(connection, pause, lambda _: work())
            )
        _give_back(connection, pause)
        return Pruned(
            entries=entries, bytes_before=bytes_before, bytes_after=used_bytes(connection)
        )


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of what is in the database. Its file approaches it once free pages are given
    back."""
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _prune_by_age(connection: sqlite3.Connection, before: str, pause: Pause) -> int:
    total = 0
    while removed := _remove_oldest(connection, _ROUND_ENTRIES, before, pause):
        total += removed
        sweep(connection, pause)
    return total


def _prune_by_size(connection: sqlite3.Connection, max_bytes: int, pause: Pause) -> int:
    """Prune to a size.

    How much an entry frees is known only after its sweep, so go half of the estimated way at a
    time, and at most a twentieth: entries that turn out big must not cost more than that many."""
    total = 0
    while (used := used_bytes(connection)) > max_bytes:
        (entries,) = connection.execute("select count(*) from usage").fetchone()
        half_way = int(entries * (1 - max_bytes / used) / 2)
        share = max(1, entries // 1000, min(half_way, entries // 20, _ROUND_ENTRIES))
        removed = _remove_oldest(connection, share, None, pause)
        if not removed:
            break
        total += removed
        sweep(connection, pause)
    return total


def _remove_oldest(
    connection: sqlite3.Connection, limit: int, before: str | None, pause: Pause
) -> int:
    where, parameters = ("where created_at < ?", (before,)) if before is not None else ("", ())
    oldest = f"select id from usage {where} order by created_at, id limit 1"  # noqa: S608 - our own
    removed = 0

    def remove_some(step: _Step) -> bool:
        nonlocal removed
        while removed < limit and step.has_time:
            row = connection.execute(oldest, parameters).fetchone()
            if row is None:
                return True
            _remove_entry(connection, row[0])
            removed += 1
        return removed == limit

    _in_steps(connection, pause, remove_some)
    return removed


def _remove_entry(connection: sqlite3.Connection, usage_id: int) -> None:
    connection.execute(
        "insert or ignore into loose_segments select s.value from request_bodies as q,"
        " json_each(q.segment_ids) as s where q.usage_id = ?",
        (usage_id,),
    )
    search_index.remove_response(connection, usage_id)
    for table in _DETAILS:
        connection.execute(f"delete from {table} where usage_id = ?", (usage_id,))  # noqa: S608
    session_sums.remove_before_last(connection, usage_id)
    connection.execute("delete from unnamed_calls where usage_id = ?", (usage_id,))
    connection.execute("delete from usage where id = ?", (usage_id,))


def sweep(connection: sqlite3.Connection, pause: Pause = time.sleep) -> None:
    """Delete loose segments and then loose pieces that nothing uses any more."""
    _sweep_level(
        connection,
        loose_table="loose_segments",
        users="select usage_id, segment_ids from request_bodies where usage_id > ? order by 1",
        delete=_delete_segment,
        pause=pause,
    )
    _sweep_level(
        connection,
        loose_table="loose_pieces",
        users="select id, piece_ids from segments where id > ? order by 1",
        delete=_delete_piece,
        pause=pause,
    )


def _sweep_level(
    connection: sqlite3.Connection,
    *,
    loose_table: str,
    users: str,
    delete: Callable[[sqlite3.Connection, int], None],
    pause: Pause,
) -> None:
    loose = [row[0] for row in connection.execute(f"select id from {loose_table}")]  # noqa: S608
    unused = set(loose)
    if not loose:
        return
    seen = _strike_out(connection, users, 0, unused)

    def delete_some(step: _Step) -> bool:
        nonlocal seen
        seen = _strike_out(connection, users, seen, unused)
        while loose and step.has_time:
            candidate = loose.pop()
            if candidate in unused:
                delete(connection, candidate)
            connection.execute(f"delete from {loose_table} where id = ?", (candidate,))  # noqa: S608
        return not loose

    _in_steps(connection, pause, delete_some)


def _strike_out(connection: sqlite3.Connection, users: str, seen: int, unused: set[int]) -> int:
    """Take from ``unused`` what rows above ``seen`` use; returns the highest id there is."""
    for user_id, ids in connection.execute(users, (seen,)):
        if ids is not None:
            unused.difference_update(orjson.loads(ids))
        seen = user_id
    return seen


def _delete_segment(connection: sqlite3.Connection, segment_id: int) -> None:
    connection.execute(
        "insert or ignore into loose_pieces select k.value from segments as g,"
        " json_each(g.piece_ids) as k where g.id = ?",
        (segment_id,),
    )
    connection.execute("delete from segments where id = ?", (segment_id,))


def _delete_piece(connection: sqlite3.Connection, piece_id: int) -> None:
    search_index.remove_piece(connection, piece_id)
    connection.execute("delete from pieces where id = ?", (piece_id,))


def _give_back(connection: sqlite3.Connection, pause: Pause) -> None:
    free = _pragma(connection, "freelist_count")
    while free:
        # Each row fetched is one page given back: it must be read to its end.
        connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
        left = _pragma(connection, "freelist_count")
        if left >= free:
            break  # made without auto_vacuum, or a recorder needs pages as fast as we free them
        free = left
        pause(PAUSE_S)
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


class _Step:
    """The time of one transaction under the write lock."""

    def __init__(self) -> None:
        self._end = time.monotonic() + LOCK_S

    @property
    def has_time(self) -> bool:
        return time.monotonic() < self._end


def _in_steps(connection: sqlite3.Connection, pause: Pause, work: Callable[[_Step], bool]) -> None:
    """Run transactions, one after the other with a pause between, until the work is done."""
    while True:
        with immediate(connection):
            done = work(_Step())
        if done:
            return
        pause(PAUSE_S)


@contextmanager
def _patient(connection: sqlite3.Connection) -> Iterator[None]:
    usual = _pragma(connection, "busy_timeout")
    connection.execute(f"PRAGMA busy_timeout={PATIENCE_MS}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout={usual}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
