"""The numbers that reports read from tables of sums, in one order for all of them."""

from collections.abc import Container, Iterable, Mapping
from datetime import date, timedelta

from metering import token_counts
from store.traces.sums.rollup import PAID_BY_OTHERS

type Names = tuple[str, ...]  # of a group, and the numbers of one
type Sums = tuple[float, ...]

_SUMMED = (
    "entries",
    "errors",
    "unpriced",
    "cost_cents",
    "maybe_billed",
    "estimated_cents",
    "unbilled_tokens",
    "unpriced_tokens",
    *token_counts.NAMES,
)


VALUE_OF_BILLING = f"total(case when billing in {PAID_BY_OTHERS} then cost_cents end)"


def list_sums(columns: Container[str]) -> list[str]:
    """Return SQL for each number that ``make_totals`` takes: 0 for what has no column yet."""
    value = "0.0"
    if "value_cents" in columns:
        value = "total(value_cents)"
    elif "billing" in columns:
        value = VALUE_OF_BILLING
    return [value, *(f"sum({name})" if name in columns else "0" for name in _SUMMED)]


def order_sums(named: Mapping[str, float]) -> Sums:
    """Return numbers by name in the order of ``list_sums``."""
    return tuple(named.get(name, 0) for name in ("value_cents", *_SUMMED))


def add_sums[Key](found: dict[Key, Sums], more: Iterable[tuple[Key, Sums]]) -> None:
    """Add sums to those of the same key."""
    for key, sums in more:
        known = found.get(key)
        found[key] = sums if known is None else tuple(map(sum, zip(known, sums, strict=True)))


def find_bounds(from_day: date | None, to_day: date | None) -> tuple[str, str]:
    """Return the texts between which days, hours and instants of a period are stored.

    They are at the first or later, and before the second, in which a ``~`` sorts behind all of the last day.
    None is no bound."""
    return (
        "" if from_day is None else from_day.isoformat(),
        "~" if to_day is None else f"{to_day.isoformat()}~",
    )


def list_days(first: date, last: date) -> list[str]:
    """Return the days of a period as they are stored, both included."""
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


def count_entries(sums: Sums) -> int:
    """Return the number of calls in numbers in that order."""
    return int(sums[1])
