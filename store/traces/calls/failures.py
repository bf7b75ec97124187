"""Counts of failed calls by kind of failure, among the newest calls."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from metering.entry import NO_ERROR
from store.database import read_records

# So many rows of ``usage`` are read in some milliseconds.
AMONG = 5_000
_COUNT = f"""
    with newest as materialized (
        select status_code, error_type, outcome, created_at from usage
        order by created_at desc limit {AMONG}
    )
    select status_code, error_type, outcome, count(*) as calls, max(created_at) as last_at
    from newest
    where outcome not in (?, ?) and created_at >= ? group by 1, 2, 3 order by 4 desc, 5 desc
"""  # noqa: S608 - our own text
_OLDEST = f"select created_at from usage order by created_at desc limit 1 offset {AMONG - 1}"  # noqa: S608


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A kind of failure, with the number of its calls and the arrival of the last one."""

    status_code: int | None
    error_type: str | None
    outcome: str
    calls: int
    last_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """The kinds of failures since an instant, the most frequent first.

    ``is_part``: older calls since that instant were not looked at."""

    kinds: Sequence[Failure] = ()
    is_part: bool = False

    @property
    def calls(self) -> int:
        return sum(each.calls for each in self.kinds)


def count_failures(db: sqlite3.Connection, since: str) -> Failures:
    """Return the failures among the newest calls that arrived at ``since`` or later.

    A client that disconnects is not a failure. Raises sqlite3.Error."""
    oldest = db.execute(_OLDEST).fetchone()
    return Failures(
        kinds=read_records(db, Failure, _COUNT, (*NO_ERROR, since)),
        is_part=oldest is not None and oldest[0] > since,
    )
