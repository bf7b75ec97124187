"""The numbers that reports read from tables of sums, in one order for all of them."""

from collections.abc import Container, Mapping

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


def count_entries(sums: Sums) -> int:
    """Return the number of calls in numbers in that order."""
    return int(sums[1])
