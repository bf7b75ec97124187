"""The sums of each day by session and agent, updated in the transaction that changes the calls.

Calls that name neither are in the row of the day whose names are empty, so the rows of a day are all of its
calls. As hourly sums they stay when retention removes the calls. Calls that were stored before there were
these sums are added later, newest first, a few in each transaction (``backfill_progress``).
"""

import sqlite3
from collections.abc import Sequence

import orjson

from metering import token_counts
from store.traces import backfill_progress, booking_sql
from store.traces.backfill_progress import AGENT_SUMS
from store.traces.rollup import SUBSCRIPTION

CALLS = 200  # take some 10 ms

KEYS = ("day", "session_id", "agent_id")
_BILLING = booking_sql.BILLING.format(billing="billing", overage="overage")
_OF_KEY = ("substr(created_at, 1, 10)", "coalesce(session_id, '')", "coalesce(agent_id, '')")
SUMS = {
    **booking_sql.OF_CALL,
    **{name: f"coalesce({name}, 0)" for name in token_counts.NAMES},
    "cost_cents": "coalesce(cost_cents, 0)",
    "estimated_cents": "coalesce(estimated_cents, 0)",
    "value_cents": f"case when {_BILLING} = '{SUBSCRIPTION}' then coalesce(cost_cents, 0) else 0 end",
}
_BOOK = (
    f"insert into agents_daily ({', '.join((*KEYS, *SUMS))})"  # noqa: S608 - our own text
    f" select {', '.join((*_OF_KEY, *(f'sum(:sign * ({sql}))' for sql in SUMS.values())))}"
    " from usage as u where id in (select value from json_each(:ids)) group by 1, 2, 3"
    f" on conflict ({', '.join(KEYS)}) do update set "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in SUMS)
)


def book(connection: sqlite3.Connection, ids: Sequence[int], *, sign: int = 1) -> None:
    """Add stored calls to the sums; with a sign of -1, take out what was added. Wants the write lock."""
    connection.execute(_BOOK, {"ids": orjson.dumps(ids).decode(), "sign": sign})


def is_booked(connection: sqlite3.Connection, usage_id: int) -> bool:
    """Return whether a stored call is in the sums already."""
    return usage_id > (backfill_progress.find_next(connection, AGENT_SUMS) or 0)


def book_some(connection: sqlite3.Connection) -> bool:
    """Add a few calls that were stored before there were sums. Return whether there may be more.

    Raises sqlite3.Error."""
    return backfill_progress.take_some(
        connection, AGENT_SUMS, CALLS, lambda ids: book(connection, ids)
    )
