"""The progress of indexing: the calls that are still to be indexed.

Calls are indexed as they come, up to ``search_progress``. The ids of all others that are not indexed yet
are in ``search_gaps``: what was recorded while the index was turned off, or faster
than it could be indexed. Gaps are worked off from the newest call downwards.
"""

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The part of the calls whose texts are found: back to ``back_to``, when the earliest of them arrived.
    It is None where all are found, or none. ``left`` is about how many calls are not."""

    back_to: str | None = None
    left: int = 0

    @property
    def is_whole(self) -> bool:
        return self.left == 0


def read_reach(connection: sqlite3.Connection) -> Reach:
    """Return which calls have texts that are found. Those of the last moment do not count as missing."""
    left, newest = connection.execute(
        "select total(to_id - from_id + 1), max(to_id) from search_gaps"
    ).fetchone()
    if newest is None:
        return Reach()
    row = connection.execute(
        "select created_at from usage where id > ? order by id limit 1", (newest,)
    ).fetchone()
    return Reach(back_to=None if row is None else row[0], left=int(left))


def read_indexed_to(connection: sqlite3.Connection) -> int:
    """Return the newest call up to which all are indexed or in gaps."""
    row = connection.execute("select indexed_to_id from search_progress").fetchone()
    return 0 if row is None else int(row[0])


def write_indexed_to(connection: sqlite3.Connection, usage_id: int) -> None:
    """Note the newest call that is indexed. The caller holds the write lock."""
    connection.execute("update search_progress set indexed_to_id = ?", (usage_id,))


def add_gap(connection: sqlite3.Connection, from_id: int, to_id: int) -> None:
    """Note calls that are to be indexed later. The caller holds the write lock."""
    connection.execute(
        "insert into search_gaps (to_id, from_id) values (?, ?)"
        " on conflict (to_id) do update set from_id = min(from_id, excluded.from_id)",
        (to_id, from_id),
    )


def find_gap(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return the first and the last id of the newest gap, None where there is none."""
    row = connection.execute(
        "select from_id, to_id from search_gaps order by to_id desc limit 1"
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def shrink_gap(connection: sqlite3.Connection, gap: tuple[int, int], next_id: int) -> None:
    """Note that a gap is indexed above an id. The caller holds the write lock."""
    from_id, to_id = gap
    connection.execute("delete from search_gaps where to_id = ?", (to_id,))
    if next_id >= from_id:
        add_gap(connection, from_id, next_id)


def begin_anew(connection: sqlite3.Connection) -> None:
    """Note that no call is indexed. The full-text tables must be empty. The caller holds the write lock."""
    (last,) = connection.execute("select coalesce(max(id), 0) from usage").fetchone()
    connection.execute("delete from search_gaps")
    connection.execute("delete from search_progress")
    connection.execute("insert into search_progress values (?)", (last,))
    if last:
        add_gap(connection, 1, last)
