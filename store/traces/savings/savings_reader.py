"""Reading of stored findings of savings: sums of a period, and those of one session."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import orjson

from store.database import bind_list, list_columns, read_records
from store.traces.savings.savings import Looked

_SUMS = (
    "sum(calls) as calls, sum(tokens) as tokens, sum(cents) as cents,"
    " sum(unpriced_tokens) as unpriced_tokens"
)
# With max(), SQLite takes the other columns from the row that has it.
_PERIOD = (
    f"select finding, subject, {_SUMS}, largest_session, day as largest_day"  # noqa: S608 - our own text
    " from savings_daily where day between ? and ? group by finding, subject order by max(largest_cents) desc"
)
_SESSION = (
    f"select finding, subject, {_SUMS}, session_id as largest_session, day as largest_day"  # noqa: S608 - our own text
    " from savings where session_id = ? group by finding, subject order by max(cents) desc"
)
_SESSIONS = (
    "select session_id, (select title from sessions as s where s.session_id = f.session_id) as title,"
    " cents, tokens from session_savings as f"
    " where last_day between ? and ? and tokens > 0 order by cents desc, session_id limit ?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The findings of one kind and subject. The largest is of ``largest_session`` and ``largest_day``."""

    finding: str
    subject: str
    calls: int
    tokens: int
    cents: float
    unpriced_tokens: int
    largest_session: str
    largest_day: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSum:
    """The sum of all findings of one session. ``title`` is None if no text of it is known."""

    session_id: str
    title: str | None
    cents: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlamedCall:
    """A call that a finding is about. ``exists`` is False if retention has removed it."""

    id: int
    cents: float | None
    exists: bool
    created_at: str | None


class SavingsReader:
    """A reader of findings by a read-only connection. Every method may raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self.is_ready = bool(list_columns(connection, "savings_daily"))

    def list_groups(self, first: date, last: date) -> list[Group]:
        """Return the sums of findings from day ``first`` to ``last``, both included."""
        return read_records(self._db, Group, _PERIOD, (first.isoformat(), last.isoformat()))

    def list_session_groups(self, session_id: str) -> list[Group]:
        """Return the sums of findings of one session."""
        return read_records(self._db, Group, _SESSION, (session_id,))

    def sum_cents(self, first: date, last: date, findings: Sequence[str]) -> float:
        """Return the cents of these kinds of findings from day ``first`` to ``last``, both included."""
        row = self._db.execute(
            "select total(cents) from savings_daily where day between ? and ?"
            " and finding in (select value from json_each(?))",
            (first.isoformat(), last.isoformat(), bind_list(findings)),
        ).fetchone()
        return float(row[0])

    def list_sessions(self, first: date, last: date, limit: int) -> list[SessionSum]:
        """Return the sessions with the largest savings, largest first.

        Only sessions count whose last finding is from day ``first`` to ``last``, both included."""
        days = first.isoformat(), last.isoformat()
        return read_records(self._db, SessionSum, _SESSIONS, (*days, limit))

    def list_calls(self, group: Group) -> list[BlamedCall]:
        """Return the most expensive calls behind the largest finding of a group."""
        row = self._db.execute(
            "select top from savings where session_id = ? and day = ? and finding = ? and subject = ?",
            (group.largest_session, group.largest_day, group.finding, group.subject),
        ).fetchone()
        top = [] if row is None else orjson.loads(row[0])
        times = dict(
            self._db.execute(
                "select id, created_at from usage where id in (select value from json_each(?))",
                (bind_list([id_ for id_, _ in top]),),
            ).fetchall()
        )
        return [
            BlamedCall(id=id_, cents=cents, exists=id_ in times, created_at=times.get(id_))
            for id_, cents in top
        ]

    def find_client(self, session_id: str) -> str | None:
        """Return the client of a session, or None if unknown."""
        row = self._db.execute(
            "select client from sessions where session_id = ?", (session_id,)
        ).fetchone()
        return None if row is None else row[0]

    def find_looked(self, session_id: str) -> Looked | None:
        """Return the last analysis of a session, or None."""
        found = read_records(
            self._db,
            Looked,
            "select method, computed_at, calls, conversations, opened from session_savings"
            " where session_id = ?",
            (session_id,),
        )
        return found[0] if found else None

    def count_due(self) -> int:
        """Return how many sessions are due to be analysed."""
        return int(self._db.execute("select count(*) from savings_due").fetchone()[0])
