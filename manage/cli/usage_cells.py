"""Totals of calls as cells of a table."""

from manage.api.usage_operations import UsageTotals
from manage.cli.terminal import format_cost, format_count
from metering.token_counts import OTHER_CLASSES, TokenCounts

_OTHER_HEADINGS = tuple(each.title.upper() for each in OTHER_CLASSES)
COUNT_HEADINGS = ("CALLS", "ERRORS", "INPUT", "CACHED", *_OTHER_HEADINGS, "COST")


def count_cells(totals: UsageTotals) -> tuple[str, ...]:
    """Return the cells below ``COUNT_HEADINGS``. Input is all that the model read."""
    tokens = TokenCounts.from_row(totals.model_dump())
    is_unknown = totals.unpriced and not totals.cost_cents  # which is not the same as nothing
    return (
        format_count(totals.calls),
        format_count(totals.errors),
        format_count(tokens.prompt or 0),
        format_count(tokens.cache_read_input_tokens),
        *(format_count(getattr(tokens, each.name)) for each in OTHER_CLASSES),
        format_cost(None if is_unknown else totals.cost_cents),
    )
