"""The predecessor of each call: the call whose prompt it continues.

It is found when a call is recorded (``conversations.predecessor``), and not always the call before it in
its session. A call without a row begins a conversation or is a side call.
"""

import sqlite3

# Of the prompt before, what was answered, and what was sent.
_COUNT_THREAD = (
    "update usage set"
    " message_count = usage.message_count + 1 + before.message_count, tool_count = before.tool_count"
    " from usage as before where usage.id = :id and before.id = :previous_id"
    " and usage.thread = 'continue' and before.message_count is not null"
    " and not exists (select 1 from predecessors where usage_id = :id)"
)


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

    A call that continues a message thread gets the numbers of messages and tools of its whole prompt, once:
    it sent only its own. The caller holds the write lock."""
    connection.execute(_COUNT_THREAD, {"id": usage_id, "previous_id": previous_id})
    connection.execute(
        "insert or replace into predecessors (usage_id, previous_id, failed_tools) values (?, ?, ?)",
        (usage_id, previous_id, failed_tools),
    )
