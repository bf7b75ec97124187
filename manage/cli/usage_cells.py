"""Totals of calls as cells of a table, and what they leave open as lines of text."""

from collections.abc import Iterator, Sequence

from manage.api.usage_operations import UsageTotals
from manage.cli.terminal import format_cost, format_count
from metering.formats import format_calls
from metering.token_counts import OTHER_CLASSES, TokenCounts

_OTHER_HEADINGS = tuple(each.title.upper() for each in OTHER_CLASSES)
_HEADINGS = ("CALLS", "ERRORS", "INPUT", "CACHED", *_OTHER_HEADINGS, "COST")
_ESTIMATED = "OF WHICH ESTIMATED"


def make_cells(
    totals: Sequence[UsageTotals],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings of a table, and the cells of each row.

    Input is all that the model read. There is a column for estimates where there are any."""
    with_estimates = any(each.estimated_cents for each in totals)
    headings = (*_HEADINGS, _ESTIMATED) if with_estimates else _HEADINGS
    rows = [
        (*_count(each), format_cost(each.estimated_cents)) if with_estimates else _count(each)
        for each in totals
    ]
    return headings, rows


def describe_open_costs(totals: UsageTotals) -> Iterator[str]:
    """Yield a line for each reason why the cost may not be what upstream bills."""
    if totals.estimated_cents:
        yield (
            f"{format_cost(totals.estimated_cents)} of the cost is estimated: the output of responses"
            " that were cut."
        )
    if totals.value_cents:
        yield (
            f"{format_cost(totals.value_cents)} of the cost is the value of calls that a subscription"
            f" covers; {format_cost(totals.spend_cents)} is spend."
        )
    if totals.unpriced:
        yield f"{format_calls(totals.unpriced)} without a known price, not in the cost."
    if totals.maybe_billed:
        yield (
            f"{format_calls(totals.maybe_billed)} without usage that upstream may have billed, not in"
            " the cost."
        )


def _count(totals: UsageTotals) -> tuple[str, ...]:
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
