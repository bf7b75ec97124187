"""Histograms of the times and speeds of calls, by day and by the columns of hourly sums.

They are updated in the transaction that inserts, and stay when retention removes the calls. The
times of a call never change afterwards, unlike its cost."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

from runtime import clock
from store.traces.sums import histograms
from store.traces.sums.rollup import DAY_KEYS, HourKey, Names


class Timed(Protocol):
    """The fields of a call that are counted. Entries and database rows have them."""

    @property
    def ttfb_ms(self) -> float | None: ...
    @property
    def duration_ms(self) -> float | None: ...
    @property
    def proxy_overhead_ms(self) -> float | None: ...
    @property
    def output_tokens_per_s(self) -> float | None: ...


class Timing(NamedTuple):
    """The histograms of a set of calls, or the values of one call."""

    ttfb_ms: int = 0
    duration_ms: int = 0
    proxy_overhead_ms: int = 0
    output_tokens_per_s: int = 0

    def __add__(self, other: "Timing") -> "Timing":  # type: ignore[override]  # sums, where tuples are joined
        return Timing(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))


MEASURES = Timing._fields
_read_values = attrgetter(*MEASURES)
NOTHING = Timing()
GROUPS = DAY_KEYS[2:]  # columns by each of which the timings of a day that is over are added up
ALL = ""  # in place of a column: those of all calls
_KEYS = ", ".join(DAY_KEYS)
_IS_KEY = " and ".join(f"{name} = ?" for name in DAY_KEYS)
_FIND = f"select {', '.join(MEASURES)} from timings_daily where {_IS_KEY}"  # noqa: S608 - our own names
_REPLACE = (
    f"insert or replace into timings_daily ({_KEYS}, {', '.join(MEASURES)})"  # noqa: S608 - our own names
    f" values ({', '.join('?' * (len(DAY_KEYS) + len(MEASURES)))})"
)
# What a day that is over was added up to before there were these calls.
_FORGET = f"delete from timings_by_group where day = ? and name in {('', *GROUPS)}"  # noqa: S608 - our own names


class Percentiles(NamedTuple):
    """The median and the 95th percentile of a measure, None without calls, and the number of calls."""

    p50: float | None
    p95: float | None
    calls: int


def find_percentiles(timing: Timing) -> dict[str, Percentiles]:
    """Return the percentiles of each measure."""
    return {
        name: Percentiles(
            histograms.find_percentile(histogram, 0.5),
            histograms.find_percentile(histogram, 0.95),
            histograms.count(histogram),
        )
        for name, histogram in zip(MEASURES, timing, strict=True)
    }


def measure_all(rows: Iterable[Sequence[float | None]]) -> Timing:
    """Return the histograms of calls, each row with the values of one in the order of ``MEASURES``."""
    return Timing(
        *(
            histograms.make(value for value in values if value is not None)
            for values in zip(*rows, strict=True)
        )
    )


class Timings:
    """The histograms that one transaction adds."""

    def __init__(self) -> None:
        self._added = defaultdict[HourKey, list[Sequence[float | None]]](list)

    def add(self, key: HourKey, call: Timed) -> None:
        """Add a call, which is booked to ``key`` in the hourly sums."""
        self._added[key].append(_read_values(call))

    def write(self, connection: sqlite3.Connection, names: Names) -> None:
        """Add the collected values to the table. ``names`` are those of the hourly sums.

        The caller holds the write lock."""
        days = defaultdict[tuple[str, ...], list[Sequence[float | None]]](list)
        for key, values in self._added.items():
            bound = names.bound(key)
            days[bound.day, *bound[1:]] += values
        today = f"{clock.now().date()}"
        connection.executemany(_FORGET, {(day,) for day, *_ in days if day < today})
        for day, values in days.items():
            timing = measure_all(values)
            stored = connection.execute(_FIND, day).fetchone()
            if stored is not None:
                timing += unpack(stored)
            connection.execute(_REPLACE, (*day, *map(histograms.pack, timing)))


def unpack(stored: tuple[bytes, ...]) -> Timing:
    """Return the histograms in a row of the table."""
    return Timing(*map(histograms.unpack, stored))
