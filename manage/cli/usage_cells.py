"""Totals of calls as cells of a table."""

from collections.abc import Mapping
from typing import Any

from manage.cli.terminal import format_cost, format_count
from metering.token_counts import OTHER_CLASSES, TokenCounts

_OTHER_HEADINGS = tuple(each.title.upper() for each in OTHER_CLASSES)
COUNT_HEADINGS = ("CALLS", "ERRORS", "INPUT", "CACHED", *_OTHER_HEADINGS, "COST")


def count_cells(sums: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells below ``COUNT_HEADINGS``. Input is all that the model read."""
    tokens = TokenCounts.from_row(sums)
    cost = sums.get("cost_cents")
    is_unknown = sums.get("unpriced") and not cost  # which is not the same as nothing
    return (
        format_count(sums.get("calls")),
        format_count(sums.get("errors")),
        format_count(tokens.prompt or 0),
        format_count(tokens.cache_read_input_tokens),
        *(format_count(getattr(tokens, each.name)) for each in OTHER_CLASSES),
        format_cost(None if is_unknown else cost),
    )
