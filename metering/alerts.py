"""The alerts that need no rule: a burst of failed calls, and a session far more expensive than usual.

Instants are UTC, as calls have them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

# Failures of an endpoint that follow one another within this time are one burst.
BURST_GAP = timedelta(minutes=10)
BURST_CALLS = 5
BURST_SHARE = 0.2  # of the calls of that endpoint in the same hour
# A session is far more expensive than usual from so many times the median on, and from a dollar on.
EXPENSIVE_TIMES = 5.0
EXPENSIVE_CENTS = 100.0
LEAST_SESSIONS = 10  # of fewer nobody knows what is usual


class Failure(NamedTuple):
    """A failed call; ``error`` is its status and type as text, such as ``529 overloaded_error``."""

    at: datetime
    slug: str
    error: str


class Burst(NamedTuple):
    """A series of failed calls of an endpoint.

    ``error`` is the most frequent error, ``errors`` the number of calls with it."""

    slug: str
    calls: int
    error: str
    errors: int
    first_at: datetime
    last_at: datetime


def find_burst(failures: Sequence[Failure], calls: Mapping[str, int]) -> Burst | None:
    """Return the largest burst among the failures of an hour, or None.

    ``calls`` has the number of all calls in that hour by endpoint."""
    by_slug: defaultdict[str, list[Failure]] = defaultdict(list)
    for each in sorted(failures):
        by_slug[each.slug].append(each)
    bursts = [
        _describe(run)
        for slug, found in by_slug.items()
        for run in _divide(found)
        if len(run) >= max(BURST_CALLS, BURST_SHARE * calls.get(slug, 0))
    ]
    return max(bursts, key=lambda each: (each.calls, each.last_at), default=None)


def _divide(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Return the failures of an endpoint (oldest first) in runs, split at pauses above ``BURST_GAP``."""
    runs: list[list[Failure]] = []
    for each in failures:
        if not runs or each.at - runs[-1][-1].at > BURST_GAP:
            runs.append([])
        runs[-1].append(each)
    return runs


def _describe(run: Sequence[Failure]) -> Burst:
    errors: defaultdict[str, int] = defaultdict(int)
    for each in run:
        errors[each.error] += 1
    error, count = max(errors.items(), key=lambda each: each[1])
    return Burst(run[0].slug, len(run), error, count, run[0].at, run[-1].at)


def compare_with_usual(cents: float, usual: Sequence[float]) -> float | None:
    """Return how many times the usual cost a session costs, or None if that is not unusual.

    ``usual`` are the costs of other sessions in cents; the usual cost is their median."""
    if len(usual) < LEAST_SESSIONS or cents < EXPENSIVE_CENTS:
        return None
    middle = median(usual)
    if middle <= 0 or cents < EXPENSIVE_TIMES * middle:
        return None
    return cents / middle
