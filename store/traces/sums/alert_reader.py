"""Reading of the data that alerts are made from: the newest calls, the newest sessions, and sums.

Alerts without a rule are computed when a page is made, those of rules in the pauses of the
recorder."""

import sqlite3
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from metering.alerts import BURST_CALLS, Burst, Failure, compare_with_usual, find_burst
from metering.entry import NO_ERROR
from runtime import clock
from store.database import read_records
from store.traces.sums.overview_query import format_hour

BURST_WITHIN = timedelta(hours=1)
MAX_CALLS = 5_000  # reading so many takes some 5 ms
EXPENSIVE_WITHIN = timedelta(days=1)
USUAL_SESSIONS = 500
MAX_SESSIONS = 100  # of which one look makes alerts


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpensiveSession:
    """A session that cost ``times`` as much as usual."""

    session_id: str
    title: str | None
    cents: float
    times: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostlySession:
    """A session and its cost."""

    session_id: str
    title: str | None
    cents: float


def read_costly_sessions(
    connection: sqlite3.Connection, since: datetime, cents: float
) -> list[CostlySession]:
    """Return sessions with calls since an instant and a cost of at least ``cents``, newest first.

    Raises sqlite3.Error."""
    return read_records(
        connection,
        CostlySession,
        "select session_id, title, cost_cents as cents from sessions where ended_at >= ?"
        " and round(cost_cents, 6) >= ? order by ended_at desc limit ?",
        (clock.format_ms(since), cents, MAX_SESSIONS),
    )


def count_errors(connection: sqlite3.Connection, hour: datetime) -> int:
    """Return how many calls failed in the clock hour of ``hour``. Raises sqlite3.Error."""
    (errors,) = connection.execute(
        "select coalesce(sum(errors), 0) from usage_hourly where hour = ?", (format_hour(hour),)
    ).fetchone()
    return int(errors)


def read_burst(connection: sqlite3.Connection, now: datetime) -> Burst | None:
    """Return the burst of failed calls in the last hour, or None.

    If an hour has very many calls, only the newest are read. Raises sqlite3.Error."""
    since = now - BURST_WITHIN
    (errors,) = connection.execute(
        "select coalesce(sum(errors), 0) from usage_hourly where hour >= ?", (format_hour(since),)
    ).fetchone()
    if errors < BURST_CALLS:  # as nearly always
        return None
    marks = ", ".join("?" * len(NO_ERROR))
    rows = connection.execute(
        "select created_at, slug, status_code, coalesce(error_type, outcome),"  # noqa: S608 - our text
        f" outcome not in ({marks}) from usage where created_at >= ?"
        " order by created_at desc limit ?",
        (*NO_ERROR, clock.format_ms(since), MAX_CALLS),
    ).fetchall()
    failures = [
        Failure(clock.parse_instant(at), slug, f"{status or ''} {error}".strip())
        for at, slug, status, error, has_failed in rows
        if has_failed
    ]
    return find_burst(failures, Counter(slug for _, slug, *_ in rows))


def read_expensive_session(
    connection: sqlite3.Connection, now: datetime
) -> ExpensiveSession | None:
    """Return the most expensive session of the last day if it cost far more than usual, or None.

    Raises sqlite3.Error."""
    row = connection.execute(
        "select session_id, title, cost_cents from sessions where ended_at >= ?"
        " order by cost_cents desc limit 1",
        (clock.format_ms(now - EXPENSIVE_WITHIN),),
    ).fetchone()
    if row is None:
        return None
    session_id, title, cents = row
    usual = connection.execute(
        "select cost_cents from (select session_id, cost_cents from sessions"
        " order by ended_at desc limit ?) where session_id <> ? and cost_cents > 0",
        (USUAL_SESSIONS, session_id),
    ).fetchall()
    times = compare_with_usual(cents, [each for (each,) in usual])
    if times is None:
        return None
    return ExpensiveSession(session_id=session_id, title=title, cents=cents, times=times)
