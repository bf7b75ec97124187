"""The predecessor of each call: the call whose prompt it continues.

It is found when a call is recorded (``conversations.predecessor``), and not always the call before it in
its session. A call without a row begins a conversation or is a side call.
"""

import sqlite3

NEAR = (
    2_000  # calls of all clients between one and that which continues it, where that is looked for
)
MAX_LATER = 1_000  # calls of a thread that are corrected by one that is stored late
# A call of a thread and those that continue it have of the call before: its messages with what was answered,
# its tools, and its title where there are no words of their own. No title goes to calls without text.
_CONTINUE = """
    with recursive later (id, message_id) as (
        select id, message_id from usage
        where id = :id and thread = 'continue'
            and not exists (select 1 from predecessors where usage_id = :id)
        union
        select u.id, u.message_id
        from later as l join usage as u on u.thread_previous_id = l.message_id
            join predecessors as p on p.usage_id = u.id and p.previous_id = l.id
        limit :most
    )
    update usage set
        message_count = usage.message_count + coalesce(before.message_count + 1, 0),
        tool_count = iif(before.message_count is null, usage.tool_count, before.tool_count),
        title_text = coalesce(
            usage.title_text, iif(usage.request_body_length is null, null, before.title_text)
        )
    from later, usage as before where usage.id = later.id and before.id = :previous_id
    returning usage.id
"""


def find_previous(connection: sqlite3.Connection, call_id: int) -> int | None:
    """Return the row id of the call that ``call_id`` continues, or None.

    None means that it continues no call, or one that retention has removed."""
    row = connection.execute(
        "select p.previous_id from predecessors as p"
        " join usage as u on u.id = p.previous_id where p.usage_id = ?",
        (call_id,),
    ).fetchone()
    return None if row is None else int(row[0])


def list_next(connection: sqlite3.Connection, call_id: int) -> list[int]:
    """Return the row ids of calls that continue ``call_id`` and were recorded soon after it."""
    rows = connection.execute(
        "select usage_id from predecessors where usage_id > ?1 and usage_id <= ?1 + ?2"
        " and previous_id = ?1 order by usage_id",
        (call_id, NEAR),
    )
    return [usage_id for (usage_id,) in rows]


def write_previous(
    connection: sqlite3.Connection,
    usage_id: int,
    previous_id: int,
    failed_tools: str | None = None,
) -> list[int]:
    """Store the predecessor of a call, and the tools that failed between both calls.

    A call that continues a message thread sent only what is new, so it gets, once, the numbers of
    messages and tools of its whole prompt, and a title. Later calls of the thread without these get
    them too. Returns the row ids of all these calls. The caller holds the write lock."""
    values = {"id": usage_id, "previous_id": previous_id, "most": MAX_LATER}
    continued = [each for (each,) in connection.execute(_CONTINUE, values).fetchall()]
    connection.execute(
        "insert or replace into predecessors (usage_id, previous_id, failed_tools) values (?, ?, ?)",
        (usage_id, previous_id, failed_tools),
    )
    return continued
