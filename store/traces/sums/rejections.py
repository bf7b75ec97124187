"""Counting the requests that were refused before they were forwarded."""

import sqlite3
from datetime import date

from store.spool.format import BUDGET_BUCKET


def count_by_budget(db: sqlite3.Connection, day: date) -> int:
    """Return how many requests a budget refused on a UTC day. Raises sqlite3.Error."""
    (count,) = db.execute(
        "select coalesce(sum(count), 0) from rejections_hourly where bucket = ? and hour like ?",
        (BUDGET_BUCKET, f"{day}%"),
    ).fetchone()
    return int(count)
