"""Costs as the story of a session writes them."""

from metering.formats import UNKNOWN, format_call_cost, format_sum_cost

_SMALL = 9.95  # cents, below which two decimals would say too little


def format_some_cost(cents: float | None, unknown: str = UNKNOWN) -> str:
    """Return what some calls cost: ``$4.89``, with three decimals below ten cents, and ``$0``."""
    if cents is None:
        return unknown
    if cents == 0:
        return "$0"
    return format_call_cost(cents) if cents < _SMALL else format_sum_cost(cents)
