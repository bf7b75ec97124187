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
    """Return SQL for each number that ``make_totals`` takes, "0" for a column that does not exist yet."""
    value = "0.0"
    if "value_cents" in columns:
        value = "total(value_cents)"
    elif "billing" in columns:
        value = VALUE_OF_BILLING
    return [value, *(f"sum({name})" if name in columns else "0" for name in _SUMMED)]


def order_sums(named: Mapping[str, float]) -> Sums:
    """Return numbers, given by name, in the order of ``list_sums``."""
    return tuple(named.get(name, 0) for name in ("value_cents", *_SUMMED))


def add_sums[Key](found: dict[Key, Sums], more: Iterable[tuple[Key, Sums]]) -> None:
    """Add sums to those with the same key in ``found``."""
    for key, sums in more:
        known = found.get(key)
        found[key] = sums if known is None else tuple(map(sum, zip(known, sums, strict=True)))


def find_bounds(from_day: date | None, to_day: date | None) -> tuple[str, str]:
    """Return the bounds of the stored days and hours of a period: lower (included), upper (excluded).

    ``~`` sorts after all hours and instants of the last day. None stands for no bound."""
    return (
        "" if from_day is None else from_day.isoformat(),
        "~" if to_day is None else f"{to_day.isoformat()}~",
    )


def list_days(first: date, last: date) -> list[str]:
    """Return the days of a period in stored form, both included."""
    return [(first + timedelta(days=n)).isoformat() for n in range((last - first).days + 1)]


def count_entries(sums: Sums) -> int:
    """Return the number of calls in sums that have the order of ``list_sums``."""
    return int(sums[1])
