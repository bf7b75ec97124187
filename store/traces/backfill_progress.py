"""The table ``backfills``: how far the work on the calls of earlier versions has come.

There is a row for each work that a migration began; ``next_id`` is the newest call that is still to be
dealt with. It moves down in the transaction that writes, so a process that is killed repeats nothing, and
nothing is written twice. After the last call the row is removed. Judging is the exception: it begins with
the oldest call and has two rows.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Literal

from store import database

type Work = Literal[
    "body fields",
    "hourly sums",
    "cut streams",
    "session sums",
    "daily sums",
    "agent sums",
    "timings",
    "judged last",
    "judged up to",
]

BODY_FIELDS: Work = "body fields"
HOURLY_SUMS: Work = "hourly sums"
CUT_STREAMS: Work = "cut streams"
SESSION_SUMS: Work = "session sums"
AGENT_SUMS: Work = "agent sums"
TIMINGS: Work = "timings"
DAILY_SUMS: Work = (
    "daily sums"  # goes through days instead of calls: 20260131 is the last of a January
)
# The two ends of one work, which begins with the oldest call: the last call, which stays, and the
# newest one that is done.
JUDGED_LAST: Work = "judged last"
JUDGED_UP_TO: Work = "judged up to"
BUSY_TIMEOUT_S = 5.0


def find_next(connection: sqlite3.Connection, work: Work) -> int | None:
    """Return the id of the newest call that is still to be dealt with, None when none is left."""
    row = connection.execute("select next_id from backfills where name = ?", (work,)).fetchone()
    return None if row is None else int(row[0])


def write_next(connection: sqlite3.Connection, work: Work, next_id: int | None) -> None:
    """Note the newest call that is left, None after the last one. Wants the write lock."""
    if next_id is None:
        connection.execute("delete from backfills where name = ?", (work,))
    else:
        connection.execute("update backfills set next_id = ? where name = ?", (next_id, work))


def take_some(
    connection: sqlite3.Connection,
    work: Work,
    count: int,
    do: Callable[[list[int]], object],
    finish: Callable[[], object] = lambda: None,
) -> bool:
    """Deal with the newest ``count`` calls that are left, in one transaction. Return whether there may
    be more.

    ``do`` gets their ids, newest first; ``finish`` is called after the last ones. Raises sqlite3.Error."""
    if find_next(connection, work) is None:
        return False
    with database.immediate(connection):
        next_id = find_next(connection, work)
        ids = [
            row[0]
            for row in connection.execute(
                "select id from usage where id <= ? order by id desc limit ?", (next_id, count)
            )
        ]
        do(ids)
        is_last = len(ids) < count
        if is_last:
            finish()
        write_next(connection, work, None if is_last else ids[-1] - 1)
    return not is_last


def has_work(connection: sqlite3.Connection) -> bool:
    """Return whether any work that a migration began is still to be done."""
    return connection.execute("select 1 from backfills").fetchone() is not None


def count_left(path: Path) -> int:
    """Return how many calls of a trace database are still to be dealt with. Raises sqlite3.Error."""
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        if not database.list_columns(connection, "backfills"):
            return 0
        (count,) = connection.execute(
            "select max("
            " (select count(*) from usage where id <= (select max(next_id) from backfills where name not in (:last, :done, :days))),"
            " (select count(*) from usage where id > (select next_id from backfills where name = :done)"
            "  and id <= (select next_id from backfills where name = :last)))",
            {"last": JUDGED_LAST, "done": JUDGED_UP_TO, "days": DAILY_SUMS},
        ).fetchone()
        return int(count)
