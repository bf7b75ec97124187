"""The data of the home page: sums by day and model, and the newest calls.

Sums are made of the hourly totals, so a page takes the same time however many calls there are, and
its days are UTC. The newest calls are read in order of arrival, without their bodies. Reading blocks:
call it in a thread.
"""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from dashboard.kept_connections import KeptConnections
from store.traces.reader import Row, read_latest
from store.traces.usage_report import Group, Totals, read_groups

DAYS = 14
NEWEST = 10
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
    reason why there is nothing else."""

    days: Sequence[Day] = ()
    models: Sequence[Group] = ()
    newest: Sequence[Row] = ()
    size_bytes: int = 0
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


def read_overview(connections: KeptConnections, path: Path, today: date) -> Overview:
    """Return the overview of a trace database; its size and an error where it cannot be read."""
    if not path.exists():
        return Overview(days=_list_days(today, {}))
    try:
        with connections.lend(path) as db:
            groups = read_groups(db, "day", today - timedelta(days=DAYS - 1), today)
            return Overview(
                days=_list_days(today, {group.day: group.totals for group in groups}),
                models=read_groups(db, "model", today, today),
                newest=read_latest(db, NEWEST),
                size_bytes=_measure(path),
            )
    except sqlite3.Error as error:
        return Overview(size_bytes=_measure(path), trouble=_explain(path, error))


def _list_days(today: date, found: Mapping[str | None, Totals]) -> Sequence[Day]:
    """Return the last days with their totals, of which there are none for a day without calls."""
    days = [today - timedelta(days=back) for back in range(DAYS)][::-1]
    return [Day(day, found.get(day.isoformat(), Totals())) for day in days]


def _measure(path: Path) -> int:
    """Return the bytes on disk, with those of the write-ahead log."""
    total = 0
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def _explain(path: Path, error: sqlite3.Error) -> str:
    """Return an error for the page, without paths and SQL, which are logged."""
    logger.error("The traces of %s cannot be read: %s", path.parent.name, error)
    is_busy = getattr(error, "sqlite_errorcode", None) in _BUSY_CODES
    return _BUSY if is_busy else _UNREADABLE
