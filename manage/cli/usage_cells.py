"""Totals of calls as cells of a table, and remarks on their costs as lines of text."""

from collections.abc import Iterator, Sequence

from manage.api.usage_operations import UsageGroup, UsageTotals
from manage.cli.terminal import format_amount, format_count
from metering.formats import format_calls
from metering.token_counts import OTHER_CLASSES, TokenCounts
from store.traces.sums import requested_models
from store.traces.sums.product_model import UsageProduct
from store.traces.sums.products import name_product

_OTHER_HEADINGS = tuple(each.title.upper() for each in OTHER_CLASSES)
_HEADINGS = ("CALLS", "ERRORS", "INPUT", "CACHED", *_OTHER_HEADINGS, "COST")
# What calls are called that name none.
_NO_NAME = {"user": "(none)", "project": "(none)", "session": "(none)", "agent": "(main)"}
# The parts of the cost, which have a column where any row has one.
_PARTS = {"estimated_cents": "OF WHICH ESTIMATED", "value_cents": "OF WHICH VALUE"}


def name_group(group: UsageGroup, field: str) -> str:
    """Return the name to print for a group of calls that is grouped by ``field``."""
    if field == "model" and group.model is None and group.request_model is not None:
        return requested_models.mark(group.request_model)
    if group.name is not None:
        return group.name
    return getattr(group, field) or _NO_NAME.get(field, "(not known)")


def make_cells(
    totals: Sequence[UsageTotals],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings of a table, and the cells of a row for each of ``totals``.

    Input is all tokens that the model read, cached ones included. The columns for estimates and for
    the value of calls that are no spend (paid by a subscription or a customer, or imported) are left
    out if empty."""
    parts = [name for name in _PARTS if any(getattr(each, name) for each in totals)]
    headings = (*_HEADINGS, *(_PARTS[name] for name in parts))
    rows = [
        (*_count(each), *(_format_part(getattr(each, name)) for name in parts)) for each in totals
    ]
    return headings, rows


def _format_part(cents: float) -> str:
    return format_amount(cents) if cents else ""


def describe_products(products: Sequence[UsageProduct]) -> Iterator[str]:
    """Yield a line for the use of other products than messages: within the calls, and apart from them."""
    for is_of_calls, where in ((True, "Of the calls"), (False, "Besides the calls")):
        parts = [_describe_product(each) for each in products if each.is_of_calls is is_of_calls]
        if parts:
            yield f"{where}: {'; '.join(parts)}."


def _describe_product(product: UsageProduct) -> str:
    text = f"{format_count(product.count)} {name_product(product.product, product.count)}"
    text += f", {format_amount(product.cost_cents)}"
    if product.list_cost_cents is not None:
        text += f" ({format_amount(product.list_cost_cents)} by upstream's list)"
    if product.unpriced:
        text += f", {format_count(product.unpriced)} without a known cost"
    return text


def describe_open_costs(totals: UsageTotals) -> Iterator[str]:
    """Yield a line for each reason why the cost may not be what upstream bills."""
    if totals.estimated_cents:
        yield (
            f"{format_amount(totals.estimated_cents)} of the cost is estimated: the output of responses"
            " that were cut."
        )
    if totals.value_cents:
        yield (
            f"{format_amount(totals.value_cents)} of the cost is the value of calls that a subscription"
            f" or a customer covers, or that are imported; {format_amount(totals.spend_cents)} is spend."
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
    # Not the same as nothing. Also of a model without calls of its own, which ran a pass of others.
    is_unknown = (totals.unpriced or totals.unpriced_tokens) and not totals.cost_cents
    return (
        format_count(totals.calls),
        format_count(totals.errors),
        format_count(tokens.prompt or 0),
        format_count(tokens.cache_read_input_tokens),
        *(format_count(getattr(tokens, each.name)) for each in OTHER_CLASSES),
        format_amount(None if is_unknown else totals.cost_cents),
    )
