"""The predecessor of each call: the call whose prompt it continues.

It is found when a call is recorded (``conversations.predecessor``), and not always the call before it in
its session. A call without a row begins a conversation or is a side call.
"""

import sqlite3


def find_previous(connection: sqlite3.Connection, call_id: int) -> int | None:
    """Return the row id of the call that a call continues.

    Returns None where it continues none, or one that retention has removed."""
    row = connection.execute(
        "select p.previous_id from predecessors as p"
        " join usage as u on u.id = p.previous_id where p.usage_id = ?",
        (call_id,),
    ).fetchone()
    return None if row is None else int(row[0])


def write_previous(
    connection: sqlite3.Connection,
    usage_id: int,
    previous_id: int,
    failed_tools: str | None = None,
) -> None:
    """Store the predecessor of a call and the tools that failed in between.

    The caller holds the write lock."""
    connection.execute(
        "insert or replace into predecessors (usage_id, previous_id, failed_tools) values (?, ?, ?)",
        (usage_id, previous_id, failed_tools),
    )
