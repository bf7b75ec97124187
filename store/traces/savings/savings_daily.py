"""The findings of all sessions by day: sums of ``savings``, made anew where these change.

A page of a period reads them, for there are fewer of them than of the findings of sessions.
"""

import sqlite3
from collections.abc import Iterable

type Key = tuple[str, str, str]  # day, finding and subject

_REMOVE = "delete from savings_daily where day = ? and finding = ? and subject = ?"
# With max(), SQLite takes the session from the row that has it.
SUM = (
    "insert into savings_daily (day, finding, subject, calls, tokens, cents, unpriced_tokens,"
    " largest_session, largest_cents)"
    " select day, finding, subject, sum(calls), sum(tokens), sum(cents), sum(unpriced_tokens),"
    " session_id, max(cents) from savings"
)
_ADD = f"{SUM} where day = ? and finding = ? and subject = ? group by day, finding, subject"


def list_keys(connection: sqlite3.Connection, session_id: str) -> set[Key]:
    """Return the days, findings and subjects that a session has a part in."""
    rows = connection.execute(
        "select day, finding, subject from savings where session_id = ?", (session_id,)
    )
    return set(rows.fetchall())


def refresh(connection: sqlite3.Connection, keys: Iterable[Key]) -> None:
    """Make these sums anew. Wants the write lock."""
    known = list(keys)
    connection.executemany(_REMOVE, known)
    connection.executemany(_ADD, known)
