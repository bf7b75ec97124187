"""Possible savings of sessions: findings by day, stored when the recorder has analysed a session.

Sums of a period read a few rows for each session, however many calls it has, and findings made from
bodies stay when the bodies are removed. A session whose calls have changed is due, and soon
analysed again (``recorder.savings``). The findings of a session are removed with its last call."""

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import orjson

from runtime import clock
from store import database
from store.traces.savings import tool_sums
from store.traces.savings.tool_sums import SumsOfTargets

QUIET_S = 10.0  # from the last change to a look at the session
MAX_DELAYING = 20  # changes; a session that never rests is looked at after as many
TABLES = ("savings", "session_savings", "savings_due")
_MARK = (
    "insert into savings_due (session_id, due_at, changes) values (?, ?, 1)"  # noqa: S608 - our own number
    " on conflict (session_id) do update set changes = changes + 1,"
    f" due_at = iif(changes < {MAX_DELAYING}, max(due_at, excluded.due_at), due_at)"
)
_INSERT = (
    "insert into savings (session_id, day, finding, subject, calls, tokens, cents, unpriced_tokens, top)"
    " values (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

type Key = tuple[str, str, str]  # day, finding and subject

_REMOVE_DAILY = "delete from savings_daily where day = ? and finding = ? and subject = ?"
# With max(), SQLite takes the session from the row that has it.
_SUM_DAILY = (
    "insert into savings_daily (day, finding, subject, calls, tokens, cents, unpriced_tokens,"
    " largest_session, largest_cents)"
    " select day, finding, subject, sum(calls), sum(tokens), sum(cents), sum(unpriced_tokens),"
    " session_id, max(cents) from savings"
)
_ADD_DAILY = (
    f"{_SUM_DAILY} where day = ? and finding = ? and subject = ? group by day, finding, subject"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A session that is due to be analysed. ``changes`` counts its changes, so that one meanwhile is
    noticed."""

    session_id: str
    due_at: float
    changes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A finding for one session on one day. ``cents`` is the cost of those tokens that have a known price.

    ``top`` has the row ids of the most expensive calls with their cents, None if unknown."""

    day: str
    finding: str
    subject: str
    calls: int
    tokens: int
    cents: float
    unpriced_tokens: int
    top: Sequence[tuple[int, float | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """An analysis of a session: its time, the version of its rules, and how much it covers.

    Of ``opened`` conversations, the bodies of ``conversations`` were read."""

    method: int
    computed_at: str
    calls: int
    conversations: int
    opened: int


def mark_due(connection: sqlite3.Connection, session_ids: Collection[str]) -> None:
    """Note that sessions are to be analysed once they have had no call for ``QUIET_S``.

    An analysis reads a whole session, so it is not repeated after each call of a session in progress.
    The caller holds the write lock."""
    due_at = clock.now().timestamp() + QUIET_S
    connection.executemany(_MARK, [(session_id, due_at) for session_id in session_ids])


def mark_session_due(connection: sqlite3.Connection, session_id: str) -> None:
    """Note that a session is to be analysed. The caller holds the write lock."""
    connection.execute(
        "insert or replace into savings_due (session_id, due_at, changes) values (?, ?, 1)",
        (session_id, clock.now().timestamp() + QUIET_S),
    )


def find_due(connection: sqlite3.Connection, now_s: float) -> Due | None:
    """Return the session that has been due for longest, or None."""
    row = connection.execute(
        "select session_id, due_at, changes from savings_due where due_at <= ? order by due_at limit 1",
        (now_s,),
    ).fetchone()
    return None if row is None else Due(session_id=row[0], due_at=row[1], changes=row[2])


def is_any_due(connection: sqlite3.Connection) -> bool:
    """Return whether any session is due to be analysed, now or later."""
    return connection.execute("select 1 from savings_due limit 1").fetchone() is not None


def write_findings(
    connection: sqlite3.Connection,
    due: Due,
    findings: Sequence[FindingRow],
    looked: Looked,
    *,
    first_day: str,
    keeps: Collection[str],
    avoidable: Collection[str],
    tools: SumsOfTargets,
    again_at: float,
) -> None:
    """Store the findings and the sums of tools of a session, in place of those from ``first_day`` on.

    Stored findings of the kinds in ``keeps`` stay, since their bodies are gone. ``avoidable`` are the
    kinds that count as savings. If the session has changed meanwhile, it is due again at ``again_at``."""
    with database.immediate(connection):
        keys = _list_keys(connection, due.session_id)
        connection.execute(
            "delete from savings where session_id = ? and day >= ?"
            " and finding not in (select value from json_each(?))",
            (due.session_id, first_day, database.bind_list(keeps)),
        )
        connection.executemany(
            _INSERT,
            [
                (
                    due.session_id,
                    each.day,
                    each.finding,
                    each.subject,
                    each.calls,
                    each.tokens,
                    each.cents,
                    each.unpriced_tokens,
                    orjson.dumps(each.top).decode(),
                )
                for each in findings
                if each.finding not in keeps
            ],
        )
        keys |= _list_keys(connection, due.session_id)
        _refresh_daily(connection, keys)
        _write_looked(connection, due.session_id, looked, avoidable)
        tool_sums.write_session(
            connection, due.session_id, first_day, tools, has_costs=bool(looked.opened)
        )
        drop_due(connection, due, again_at)


def _write_looked(
    connection: sqlite3.Connection, session_id: str, looked: Looked, avoidable: Collection[str]
) -> None:
    """Note that a session was analysed, with the sum of its possible savings."""
    kinds = database.bind_list(avoidable)
    connection.execute(
        "insert or replace into session_savings (session_id, method, computed_at, calls,"
        " conversations, opened, cents, tokens, last_day)"
        " select ?, ?, ?, ?, ?, ?, total(cents), coalesce(sum(tokens), 0), max(day) from savings"
        " where session_id = ? and finding in (select value from json_each(?))",
        (
            session_id,
            looked.method,
            looked.computed_at,
            looked.calls,
            looked.conversations,
            looked.opened,
            session_id,
            kinds,
        ),
    )


def drop_due(connection: sqlite3.Connection, due: Due, again_at: float) -> None:
    """Note that a session was analysed; if it has changed meanwhile, it is due again at ``again_at``.

    The caller holds the write lock."""
    connection.execute(
        "delete from savings_due where session_id = ? and changes = ?",
        (due.session_id, due.changes),
    )
    connection.execute(
        "update savings_due set due_at = ? where session_id = ?", (again_at, due.session_id)
    )


def remove_session(connection: sqlite3.Connection, session_id: str) -> None:
    """Remove all findings and sums of tools of a session. The caller holds the write lock."""
    keys = _list_keys(connection, session_id)
    for table in TABLES:
        connection.execute(f"delete from {table} where session_id = ?", (session_id,))  # noqa: S608
    _refresh_daily(connection, keys)
    tool_sums.remove_session(connection, session_id)


def _list_keys(connection: sqlite3.Connection, session_id: str) -> set[Key]:
    """Return (day, finding, subject) of the findings of a session."""
    rows = connection.execute(
        "select day, finding, subject from savings where session_id = ?", (session_id,)
    )
    return set(rows.fetchall())


def _refresh_daily(connection: sqlite3.Connection, keys: Iterable[Key]) -> None:
    """Compute the daily sums for ``keys`` again. The caller holds the write lock."""
    known = list(keys)
    connection.executemany(_REMOVE_DAILY, known)
    connection.executemany(_ADD_DAILY, known)
