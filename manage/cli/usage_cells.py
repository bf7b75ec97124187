"""Totals of calls as cells of a table."""

from collections.abc import Mapping
from typing import Any

from manage.cli.terminal import format_cost, format_count

COUNT_HEADINGS = ("CALLS", "ERRORS", "INPUT", "CACHED", "OUTPUT", "COST")
_INPUT_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def count_cells(sums: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells below ``COUNT_HEADINGS``. Input is all that the model read."""
    cost = sums.get("cost_cents")
    is_unknown = sums.get("unpriced") and not cost  # which is not the same as nothing
    return (
        format_count(sums.get("calls")),
        format_count(sums.get("errors")),
        format_count(sum(sums.get(name) or 0 for name in _INPUT_FIELDS)),
        format_count(sums.get("cache_read_input_tokens")),
        format_count(sums.get("output_tokens")),
        format_cost(None if is_unknown else cost),
    )
