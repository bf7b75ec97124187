"""The progress of indexing: the calls that are still to be indexed.

Calls are indexed as they come, up to ``search_progress``. The ids of all others that are not
indexed yet are in ``search_gaps``: calls recorded while the index was turned off, or faster than
they could be indexed. Gaps are indexed from the newest call down."""

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The calls whose texts can be found: those that arrived at ``back_to`` or later.

    ``back_to`` is None if all calls can be found, or none. ``left`` is about the number of calls that
    cannot."""

    back_to: str | None = None
    left: int = 0

    @property
    def is_whole(self) -> bool:
        return self.left == 0


def read_reach(connection: sqlite3.Connection) -> Reach:
    """Return which calls have texts that can be found, without regard to calls of the last moment."""
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
    """Return the row id up to which all calls are indexed or in gaps."""
    row = connection.execute("select indexed_to_id from search_progress").fetchone()
    return 0 if row is None else int(row[0])


def write_indexed_to(connection: sqlite3.Connection, usage_id: int) -> None:
    """Set the row id up to which calls are indexed. The caller holds the write lock."""
    connection.execute("update search_progress set indexed_to_id = ?", (usage_id,))


def add_gap(connection: sqlite3.Connection, from_id: int, to_id: int) -> None:
    """Note a range of row ids as to be indexed later. The caller holds the write lock."""
    connection.execute(
        "insert into search_gaps (to_id, from_id) values (?, ?)"
        " on conflict (to_id) do update set from_id = min(from_id, excluded.from_id)",
        (to_id, from_id),
    )


def find_gap(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """Return the first and the last row id of the newest gap, or None."""
    row = connection.execute(
        "select from_id, to_id from search_gaps order by to_id desc limit 1"
    ).fetchone()
    return None if row is None else (int(row[0]), int(row[1]))


def shrink_gap(connection: sqlite3.Connection, gap: tuple[int, int], next_id: int) -> None:
    """Note that a gap is indexed above ``next_id``. The caller holds the write lock."""
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
