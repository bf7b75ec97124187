"""The extra cost of tokens that were in the prompt cache and were paid for again: pure functions."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

from metering.billed_passes import Call
from metering.components import CACHE_WRITE_1H
from metering.model_names import is_same_model
from metering.prices import PriceTable
from metering.pricing import price_call

# Writes come first, those for an hour before those for five minutes, as they stand in the prompt; then
# what was uncached.
COMPONENTS = (CACHE_WRITE_1H, "cache_write_5m", "input")


def share_rewritten(tokens: int, billed: Mapping[str, int]) -> dict[str, int]:
    """Return how ``tokens`` are divided among components. ``billed`` has the quantities of these."""
    parts = {}
    for component in COMPONENTS:
        parts[component] = min(tokens, billed.get(component, 0))
        tokens -= parts[component]
    return parts


def price_rewritten(
    parts: Mapping[str, int], pass_index: int, bill: Call, prices: PriceTable
) -> Decimal | None:
    """Return the cost of the parts minus that of reading as many tokens, in US cents.

    None if a price is unknown. Rules, rates and multipliers are those of the call."""
    paid = [
        item
        for item in bill.items
        if item.pass_index == pass_index and parts.get(item.component, 0)
    ]
    if not paid:
        return None
    again = [item._replace(quantity=parts[item.component]) for item in paid]
    reads = [item._replace(component="cache_read") for item in again]
    cost = price_call(replace(bill, items=again), prices)[1]
    read_cost = price_call(replace(bill, items=reads), prices)[1]
    return None if cost is None or read_cost is None else cost - read_cost


def price_stored_rewrite(tokens: int, bill: Call, prices: PriceTable) -> Decimal | None:
    """Return the extra cost in US cents of tokens of a stored call, or None if a price is unknown.

    They are tokens of the first pass of the model that answered."""
    passes = [
        item.pass_index
        for item in bill.items
        if item.component in COMPONENTS
        and (item.model is None or is_same_model(item.model, bill.model))
    ]
    if not passes:
        return None
    first = min(passes)
    billed = {item.component: item.quantity for item in bill.items if item.pass_index == first}
    return price_rewritten(share_rewritten(tokens, billed), first, bill, prices)
