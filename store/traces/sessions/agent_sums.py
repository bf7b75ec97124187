"""The sums of each day by session and agent, updated in the transaction that changes the calls.

Calls without session and agent are in the row of the day whose names are empty, so the rows of a
day include all its calls. Like hourly sums they stay when retention removes the calls."""

import sqlite3
from collections.abc import Sequence
from datetime import date

from metering import token_counts
from store.database import bind_list
from store.traces.sums import booking_sql
from store.traces.sums.rollup import write_adding
from store.traces.sums.sum_columns import list_days

KEYS = ("day", "session_id", "agent_id")
_OF_KEY = ("substr(created_at, 1, 10)", "coalesce(session_id, '')", "coalesce(agent_id, '')")
SUMS = {
    **booking_sql.OF_CALL,
    **{name: f"coalesce({name}, 0)" for name in token_counts.NAMES},
    **booking_sql.MONEY_OF_CALL,
}
_ADD = write_adding(KEYS, SUMS)
_BOOK = (
    f"insert into agents_daily ({', '.join((*KEYS, *SUMS))})"  # noqa: S608 - our own text
    f" select {', '.join((*_OF_KEY, *(f'sum(:sign * ({sql}))' for sql in SUMS.values())))}"
    " from usage as u where id in (select value from json_each(:ids)) group by 1, 2, 3"
    f" {_ADD}"
)
_OF_SESSION = "day in (select value from json_each(:days)) and session_id = :session_id"
_FORGET = (
    f"insert into agents_daily ({', '.join((*KEYS, *SUMS))})"  # noqa: S608 - our own text
    f" select day, '', '', {', '.join(f'sum({name})' for name in SUMS)}"
    f" from agents_daily where {_OF_SESSION} group by day {_ADD}"
)


def book(connection: sqlite3.Connection, ids: Sequence[int], *, sign: int = 1) -> None:
    """Add stored calls to the sums or, with ``sign`` -1, subtract them.

    The caller holds the write lock."""
    connection.execute(_BOOK, {"ids": bind_list(ids), "sign": sign})


def forget_session(
    connection: sqlite3.Connection, session_id: str, first_day: str, last_day: str
) -> None:
    """Move the sums of a session on these days (both included) to the rows without a session.

    The caller holds the write lock."""
    days = list_days(date.fromisoformat(first_day), date.fromisoformat(last_day))
    values = {"days": bind_list(days), "session_id": session_id}
    connection.execute(_FORGET, values)
    connection.execute(f"delete from agents_daily where {_OF_SESSION}", values)  # noqa: S608 - our own text
