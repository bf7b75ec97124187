"""Counters of calls since the database was created, for ``/metrics``: they only ever grow.

A program that reads counters takes a smaller value for a restart. So these are kept apart from the
sums for people, which change when a cost is computed again or a call is removed: a call is added
once, in the transaction that inserts it, and never subtracted.

The number of rows is bounded, whatever clients and upstreams send: the first ``MAX_MODELS`` pairs
of slug and model have rows of their own. Later ones are counted for the model ``OTHER``, and for
the slug ``OTHER`` if the slug has no row either."""

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from metering import token_counts
from metering.entry import UsageLogEntry
from store.database import list_columns, open_readonly
from store.traces.sums.rollup import OTHER, UNKNOWN, write_upsert

READ_TIMEOUT_S = 1.0
MAX_MODELS = 500
MAX_MODEL_CHARACTERS = 100
# The upper bounds of the buckets, in seconds. Stored rows have them, so a bound that is taken out later
# still has its calls.
TIMES: Mapping[str, tuple[float, ...]] = {
    "ttfb_ms": (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, inf),
    "duration_ms": (0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, inf),
    "proxy_overhead_ms": (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, inf),
}


class CallKey(NamedTuple):
    """The columns that identify a row of ``call_counters``. An unknown model is ``UNKNOWN``."""

    slug: str
    model: str
    outcome: str


class TimeKey(NamedTuple):
    """The columns that identify a row of ``time_counters``."""

    slug: str
    measure: str
    up_to_s: float


_TIMES = tuple(TIMES.items())
_read_times = attrgetter(*TIMES)
_read_counts = attrgetter(*token_counts.NAMES)
CALL_SUMS = ("calls", *token_counts.NAMES, "attributes_left_out", "cost_cents")
TIME_SUMS = ("calls", "seconds")


class Counters(NamedTuple):
    """The counters of a database, each by its key: sums in the order of ``CALL_SUMS`` and ``TIME_SUMS``."""

    calls: Mapping[CallKey, tuple[float, ...]]
    times: Mapping[TimeKey, tuple[float, ...]]


class CallCounter:
    """A writer that adds calls to the counters of one database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: set[tuple[str, str]] | None = None

    def add(self, entries: Iterable[UsageLogEntry]) -> None:
        """Add entries that are new in this transaction. The caller holds the write lock."""
        # It is run for each call, so it spells out what a loop over fields would take twice as long for.
        calls: dict[tuple[str, str, str], list[float]] = {}
        times: dict[tuple[str, str, float], list[float]] = {}
        for entry in entries:
            slug, model = self._admit(entry.slug, entry.model or UNKNOWN)
            key = slug, model, entry.outcome
            sums = calls.get(key)
            if sums is None:
                sums = calls[key] = [0] * len(CALL_SUMS)
            sums[0] += 1
            for place, count in enumerate(_read_counts(entry.tokens), 1):
                if count:
                    sums[place] += count
            if entry.attributes_left_out:
                sums[-2] += entry.attributes_left_out
            if entry.cost_cents:
                sums[-1] += max(0.0, float(entry.cost_cents))
            for (measure, bounds), value_ms in zip(_TIMES, _read_times(entry), strict=True):
                if value_ms is not None:
                    seconds = value_ms / 1000 if value_ms > 0 else 0.0
                    time_key = slug, measure, bounds[bisect_left(bounds, seconds)]
                    total = times.get(time_key)
                    if total is None:
                        times[time_key] = [1, seconds]
                    else:
                        total[0] += 1
                        total[1] += seconds
        self._connection.executemany(_UPSERT_CALLS, [(*key, *sums) for key, sums in calls.items()])
        self._connection.executemany(_UPSERT_TIMES, [(*key, *sums) for key, sums in times.items()])

    def forget(self) -> None:
        """Forget which rows exist. Call this after a transaction was rolled back."""
        self._known = None

    def _admit(self, slug: str, model: str) -> tuple[str, str]:
        """Return the slug and the model of the row in which a call is counted."""
        if self._known is None:
            self._known = set(
                self._connection.execute("select distinct slug, model from call_counters")
            )
        pair = slug, model[:MAX_MODEL_CHARACTERS]
        if pair in self._known:
            return pair
        if len(self._known) >= MAX_MODELS:
            has_slug = any(slug == each for each, _ in self._known)
            pair = (slug if has_slug else OTHER), OTHER
        self._known.add(pair)
        return pair


_UPSERT_CALLS = write_upsert("call_counters", CallKey._fields, CALL_SUMS)
_UPSERT_TIMES = write_upsert("time_counters", TimeKey._fields, TIME_SUMS)


def read_counters(path: Path) -> Counters:
    """Return the counters of a database, empty if the recorder has not created their tables.

    Raises sqlite3.Error if the database cannot be read."""
    db = open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)
    try:
        if not list_columns(db, "time_counters"):
            return Counters({}, {})
        # A database that no newer recorder has opened yet lacks the newest columns.
        columns = list_columns(db, "call_counters")
        sums = tuple(name if name in columns else f"0 as {name}" for name in CALL_SUMS)
        return Counters(
            {
                CallKey(*row[:3]): row[3:]
                for row in db.execute(_select("call_counters", CallKey._fields, sums))
            },
            {
                TimeKey(*row[:3]): row[3:]
                for row in db.execute(_select("time_counters", TimeKey._fields, TIME_SUMS))
            },
        )
    finally:
        db.close()


def _select(table: str, keys: tuple[str, ...], sums: tuple[str, ...]) -> str:
    return f"select {', '.join((*keys, *sums))} from {table}"  # noqa: S608 - our own names
