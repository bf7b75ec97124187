"""Removal of calls or their texts, and of data that only they used, while others keep recording.

The pieces of a removed request may be shared with calls that stay. Unused ones are found by mark
and sweep: the transaction that removes a request notes its segments as *loose*. Then the segment
lists of all remaining requests are read, without any lock, and the segments in them are no longer
loose. The others are deleted in short transactions, each of which first checks the lists of
requests recorded in the meantime: ids only grow, so those are the ones above the last id seen. The
pieces of deleted segments are deleted in the same way. A recorder cannot use a deleted id from its
memory, because it forgets its ids when another connection has committed (see ``bodies.bodies``), or
when it has removed something itself.

Work that is killed leaves loose rows, never a reference to a deleted one, and the next run
continues with them. Two runs at once on one database are safe for every body, but may leave a piece
that no segment uses."""

import sqlite3
from collections.abc import Callable, Iterable

import orjson

from metering.body_notes import join_notes, note_removal
from store.traces.savings import tool_sums
from store.traces.search import index as search_index, removal as search_removal
from store.traces.sessions import session_sums
from store.traces.steps import Step, Steps, in_steps, read_pragma

_QUOTES = "instr(detail, '“') > 0"  # as ``conversations.wording`` quotes
QUOTES_REMOVED = "The texts that explain it have been removed."
_PAGE = 1_000
_VACUUM_BYTES = 1024 * 1024
# What a call has in other tables, by ``usage_id``.
_DETAILS = (
    "request_bodies",
    "response_bodies",
    "usage_cost",
    "rate_limits",
    "predecessors",
    "cache_breaks",
    "labels",
    "notes",
    "tool_uses",
    "tags",
)
HAS_TEXT = (
    "request_body_length is not null or response_body_length is not null or title_text is not null"
    " or said_text is not null"
)


def remove_entry(connection: sqlite3.Connection, usage_id: int, untitled: set[str]) -> bool:
    """Remove a call; return whether it existed. The caller holds the write lock.

    A session whose title came from this call is added to ``untitled``, for ``settle_sessions``."""
    untitled |= session_sums.find_titled(connection, usage_id)
    _loosen(connection, usage_id)
    _forget_problems(connection, usage_id)
    for table in _DETAILS:
        connection.execute(f"delete from {table} where usage_id = ?", (usage_id,))  # noqa: S608
    session_sums.remove_before_last(connection, usage_id)
    connection.execute("delete from unnamed_calls where usage_id = ?", (usage_id,))
    return connection.execute("delete from usage where id = ?", (usage_id,)).rowcount > 0


def remove_text(connection: sqlite3.Connection, usage_id: int, untitled: set[str]) -> bool:
    """Remove the texts of a call: its bodies, its first words and quotations of them.

    Returns whether there were any. For ``untitled`` see ``remove_entry``. The caller holds the write
    lock."""
    row = connection.execute(
        "select body_notes, request_body_length is not null, response_body_length is not null"  # noqa: S608 - our own text
        f" from usage where id = ? and ({HAS_TEXT})",
        (usage_id,),
    ).fetchone()
    if row is None:
        return False
    notes, has_request, has_response = row
    if has_request:
        notes = note_removal(notes, "request")
    if has_response:
        notes = note_removal(notes, "response")
    untitled |= session_sums.find_titled(connection, usage_id)
    _loosen(connection, usage_id)
    for table in ("request_bodies", "response_bodies"):
        connection.execute(f"delete from {table} where usage_id = ?", (usage_id,))  # noqa: S608
    connection.execute(
        f"update cache_breaks set detail = :removed where usage_id = :id and {_QUOTES}",  # noqa: S608 - our own text
        {"removed": QUOTES_REMOVED, "id": usage_id},
    )
    _forget_problems(connection, usage_id)
    tool_sums.forget_targets(connection, usage_id)
    connection.execute(
        "update tool_uses set target = null, problem = null where usage_id = ?", (usage_id,)
    )
    connection.execute(
        "update usage set request_body_length = null, response_body_length = null,"
        " title_text = null, said_text = null, body_notes = ? where id = ?",
        (join_notes(notes), usage_id),
    )
    return True


def _loosen(connection: sqlite3.Connection, usage_id: int) -> None:
    """Note the segments of a request as loose, and remove the response from the search index."""
    connection.execute(
        "insert or ignore into loose_segments select s.value from request_bodies as q,"
        " json_each(q.segment_ids) as s where q.usage_id = ?",
        (usage_id,),
    )
    search_index.remove_response(connection, usage_id)


def _forget_problems(connection: sqlite3.Connection, usage_id: int) -> None:
    """Remove the error texts of failed tools that came with this call and are stored with the call before."""
    connection.execute(
        "update tool_uses set problem = null where problem is not null and usage_id ="
        " (select previous_id from predecessors where usage_id = ?)",
        (usage_id,),
    )


def settle_sessions(connection: sqlite3.Connection, untitled: Iterable[str]) -> None:
    """Set the title of each session to that of its earliest call that has one.

    The caller holds the write lock."""
    for session_id in untitled:
        session_sums.refresh_title(connection, session_id)


def finish(connection: sqlite3.Connection) -> Steps[None]:
    """Remove remains of removed calls: unused pieces, words in the index, quotations of texts."""
    yield from sweep(connection)
    yield from search_removal.settle(connection)
    yield from _forget_quotes(connection)


def sweep(connection: sqlite3.Connection) -> Steps[None]:
    """Delete loose segments and then loose pieces that no request uses any more."""
    yield from _sweep_level(
        connection,
        loose_table="loose_segments",
        users="select usage_id, segment_ids from request_bodies where usage_id > ? order by 1 limit ?",
        delete=_delete_segment,
    )
    yield from _sweep_level(
        connection,
        loose_table="loose_pieces",
        users="select id, piece_ids from segments where id > ? order by 1 limit ?",
        delete=_delete_piece,
    )


def _sweep_level(
    connection: sqlite3.Connection,
    *,
    loose_table: str,
    users: str,
    delete: Callable[[sqlite3.Connection, int], None],
) -> Steps[None]:
    loose = [row[0] for row in connection.execute(f"select id from {loose_table}")]  # noqa: S608
    if not loose:
        return
    unused = set(loose)
    seen = 0
    while (last := _strike_out(connection, users, seen, unused)) != seen:
        seen = last
        yield

    def delete_some(step: Step) -> bool:
        nonlocal seen
        while (last := _strike_out(connection, users, seen, unused)) != seen:
            seen = last
        while loose and step.has_time:
            candidate = loose.pop()
            if candidate in unused:
                delete(connection, candidate)
            connection.execute(f"delete from {loose_table} where id = ?", (candidate,))  # noqa: S608
        return not loose

    yield from in_steps(connection, delete_some)


def _strike_out(connection: sqlite3.Connection, users: str, seen: int, unused: set[int]) -> int:
    """Remove from ``unused`` the ids that the next rows above ``seen`` use. Return the id of the last row."""
    for user_id, ids in connection.execute(users, (seen, _PAGE)).fetchall():
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


def _forget_quotes(connection: sqlite3.Connection) -> Steps[None]:
    """Remove quotations in cache breaks if the quoted call before the break has no text any more."""
    last_id = 0

    def forget_some(_: Step) -> bool:
        nonlocal last_id
        rows = connection.execute(
            f"select b.usage_id, {_QUOTES} and not exists (select 1 from usage as u"  # noqa: S608 - our own text
            " where u.entry_id = b.previous_entry_id and u.request_body_length is not null)"
            " from cache_breaks as b where b.usage_id > ? order by 1 limit ?",
            (last_id, _PAGE),
        ).fetchall()
        connection.executemany(
            "update cache_breaks set detail = ? where usage_id = ?",
            [(QUOTES_REMOVED, usage_id) for usage_id, is_orphan in rows if is_orphan],
        )
        last_id = rows[-1][0] if rows else last_id
        return len(rows) < _PAGE

    yield from in_steps(connection, forget_some)


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of the data in the database in bytes: the size that is shown and that retention
    limits.

    Data in the write-ahead log counts; the log file itself and free pages do not: both come and go by
    themselves, and the file approaches this size once free pages are given back."""
    pages = read_pragma(connection, "page_count") - read_pragma(connection, "freelist_count")
    return pages * read_pragma(connection, "page_size")


def give_back(connection: sqlite3.Connection) -> Steps[None]:
    """Return free pages to the file system."""
    free = read_pragma(connection, "freelist_count")
    at_once = _VACUUM_BYTES // read_pragma(connection, "page_size")
    while free:
        # Each row fetched is one page given back: it must be read to its end.
        connection.execute(f"PRAGMA incremental_vacuum({at_once})").fetchall()
        left = read_pragma(connection, "freelist_count")
        if left >= free:
            break  # made without auto_vacuum, or a recorder needs pages as fast as we free them
        free = left
        yield
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
