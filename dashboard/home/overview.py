"""The data of the home page: sums by day and model, the month, sessions, and the newest calls.

Sums are made of the hourly totals, so a page takes the same time however many calls there are, and
its days are UTC. The newest calls are read in order of arrival, without their bodies. Reading blocks:
call it in a thread.
"""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from conversations.savings.kinds import AVOIDABLE
from dashboard.kept_connections import KeptConnections
from runtime import clock
from store.traces.calls.reader import Row, read_failures, read_latest
from store.traces.maintenance.removal import used_bytes
from store.traces.savings.savings_reader import SavingsReader
from store.traces.sessions.session_reader import Session, SessionReader
from store.traces.sums.forecast import Month
from store.traces.sums.month import find_month
from store.traces.sums.products import ProductTotals, read_products
from store.traces.sums.rejections import count_by_budget
from store.traces.sums.usage_report import Group, Totals, read_groups

DAYS = 14
NEWEST = 10
SESSIONS, SESSION_DAYS = 5, 7
FAILURES, FAILURES_AMONG = 5, 2_000
_BUSY = "The database is busy. Reload this page in a moment."
_UNREADABLE = (
    "The database cannot be read. Calls are still proxied and wait to be stored;"
    " run `taximeter doctor` on the server for details."
)
_BUSY_CODES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Day:
    """The totals of a UTC day."""

    day: date
    totals: Totals

    @property
    def next(self) -> date:
        return self.day + timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The data of the home page. ``days`` are oldest first and end with today. ``trouble`` is the
    reason why there is nothing else. ``saved_cents`` is what could have been saved in the last days;
    ``products`` are what other interfaces than messages have used in the month;
    ``refused_by_budget`` requests are some of those of today that were rejected. ``size_bytes`` is that
    of all that is in the database."""

    days: Sequence[Day] = ()
    models: Sequence[Group] = ()
    products: Sequence[ProductTotals] = ()
    newest: Sequence[Row] = ()
    month: Month | None = None
    sessions: Sequence[Session] = ()
    failures: Sequence[Row] = ()
    saved_cents: float | None = None
    refused_by_budget: int = 0
    size_bytes: int | None = 0
    trouble: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was ever recorded, as far as these data tell."""
        return not self.trouble and not self.newest and not any(d.totals.calls for d in self.days)

    @property
    def today(self) -> Totals:
        return self.days[-1].totals

    @property
    def yesterday(self) -> Totals:
        return self.days[-2].totals

    @property
    def highest_cents(self) -> float:
        """Return the cost of the most expensive day."""
        return max(day.totals.cost_cents for day in self.days)


def read_overview(connections: KeptConnections, path: Path, now: datetime) -> Overview:
    """Return the overview of a trace database; an error where it cannot be read."""
    today = now.date()
    if not path.exists():
        return Overview(days=_list_days(today, {}))
    try:
        with connections.lend(path) as db:
            groups = read_groups(db, "day", today - timedelta(days=DAYS - 1), today)
            days = _list_days(today, {group.day: group.totals for group in groups})
            return Overview(
                days=days,
                models=read_groups(db, "model", today, today),
                products=read_products(db, today.replace(day=1), today),
                newest=read_latest(db, NEWEST),
                month=find_month(db, now),
                sessions=_read_sessions(db, now),
                failures=read_failures(db, FAILURES, FAILURES_AMONG),
                saved_cents=_read_savings(db, today),
                refused_by_budget=count_by_budget(db, today) if days[-1].totals.rejected else 0,
                size_bytes=used_bytes(db),
            )
    except sqlite3.Error as error:
        return Overview(size_bytes=None, trouble=_explain(path, error))


def _read_savings(db: sqlite3.Connection, today: date) -> float | None:
    """Return what could have been saved in the last days, None before the recorder keeps it."""
    reader = SavingsReader(db)
    if not reader.is_ready:
        return None
    return reader.sum_cents(today - timedelta(days=SESSION_DAYS - 1), today, AVOIDABLE)


def _read_sessions(db: sqlite3.Connection, now: datetime) -> Sequence[Session]:
    """Return the most expensive sessions of the last days."""
    reader = SessionReader(db)
    if not reader.is_ready:
        return ()
    since = clock.format_ms(now - timedelta(days=SESSION_DAYS))
    return reader.list_most_expensive(since, SESSIONS)


def _list_days(today: date, found: Mapping[str | None, Totals]) -> Sequence[Day]:
    """Return the last days with their totals, of which there are none for a day without calls."""
    days = [today - timedelta(days=back) for back in range(DAYS)][::-1]
    return [Day(day, found.get(day.isoformat(), Totals())) for day in days]


def _explain(path: Path, error: sqlite3.Error) -> str:
    """Return an error for the page, without paths and SQL, which are logged."""
    logger.error("The traces of %s cannot be read: %s", path.parent.name, error)
    is_busy = getattr(error, "sqlite_errorcode", None) in _BUSY_CODES
    return _BUSY if is_busy else _UNREADABLE
