"""The completion of removals in the search index.

The texts of a piece or a response are removed from the index in the transaction that deletes them.
Two things are left. Pieces that other calls still have need a new first call, and a piece that was
only a copy of a removed response is now indexed itself. And a full-text table only marks a word as
removed; the word itself is gone when all parts of the table have been merged."""

import sqlite3

import orjson

from store.traces.search import index
from store.traces.steps import Step, Steps, in_steps

MERGE_PAGES = 64  # written in one step, some 5 ms
_MOVES_AT_ONCE = 50
_FULL_TEXT = ("search_text", "search_response")

_PAGE = 1_000


def settle(connection: sqlite3.Connection) -> Steps[None]:
    """Find new first calls for pieces, and merge the full-text tables, which deletes removed words.

    Raises sqlite3.Error; the rest is then done by the next run."""
    yield from _move(connection)
    for table in _FULL_TEXT:
        yield from _merge(connection, table)


def _move(connection: sqlite3.Connection) -> Steps[None]:
    rows = connection.execute(
        "select m.piece_id, q.usage_id from search_moves as m"
        " left join search_pieces as s on s.piece_id = m.piece_id"
        " left join request_bodies as q on q.usage_id = s.usage_id"
    ).fetchall()
    firsts: dict[int, int | None] = dict(rows)
    firsts |= yield from _find_first_calls(
        connection, {piece for piece, call in rows if call is None}
    )
    moves = list(firsts.items())

    def move_some(_: Step) -> bool:
        for piece_id, usage_id in moves[-_MOVES_AT_ONCE:]:
            if usage_id is not None and index.has_request(connection, usage_id):
                index.move_piece(connection, piece_id, usage_id)
            else:  # no call has it: it is not found, and the next sweep deletes it
                connection.execute("delete from search_moves where piece_id = ?", (piece_id,))
        del moves[-_MOVES_AT_ONCE:]
        return not moves

    if moves:
        yield from in_steps(connection, move_some)


def _find_first_calls(connection: sqlite3.Connection, wanted: set[int]) -> Steps[dict[int, int]]:
    """Return the first call of each of these pieces. Reads every list once, without a lock."""
    firsts: dict[int, int] = {}
    if not wanted:
        return firsts
    by_segment: dict[int, set[int]] = {}
    last_id = 0
    while rows := connection.execute(
        "select id, piece_ids from segments where id > ? order by 1 limit ?", (last_id, _PAGE)
    ).fetchall():
        for segment_id, ids in rows:
            if found := wanted.intersection(orjson.loads(ids)):
                by_segment[segment_id] = found
        last_id = rows[-1][0]
        yield
    last_id = 0
    while len(firsts) < len(wanted) and (
        rows := connection.execute(
            "select usage_id, segment_ids from request_bodies where usage_id > ?"
            " and segment_ids is not null order by 1 limit ?",
            (last_id, _PAGE),
        ).fetchall()
    ):
        for usage_id, segment_ids in rows:
            for segment_id in orjson.loads(segment_ids):
                for piece_id in by_segment.get(segment_id, ()):
                    firsts.setdefault(piece_id, usage_id)
        last_id = rows[-1][0]
        yield
    return firsts


def _merge(connection: sqlite3.Connection, table: str) -> Steps[None]:
    """Merge all parts of a full-text table into one."""
    pages = -MERGE_PAGES  # below zero: begin with all parts, however few there are

    def merge_some(_: Step) -> bool:
        nonlocal pages
        before = connection.total_changes
        connection.execute(f"insert into {table} ({table}, rank) values ('merge', ?)", (pages,))  # noqa: S608 - one of two names
        pages = MERGE_PAGES
        return connection.total_changes - before < 2  # as SQLite documents it

    yield from in_steps(connection, merge_some)
