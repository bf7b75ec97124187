"""Billing stored calls again whose line items were made by older rules.

``reprice`` works from line items, which do not tell what the response says: that a model declined, or
before which output. So the rules of today reach a call only by its response, while that is being read
anyway. What they say alike keeps the price that it has, also where a price list is newer.
"""

from collections.abc import Sequence

from metering.entry import CostItem
from metering.prices import PriceTable
from metering.usage import Usage
from recorder.stored_calls import price_again
from store.traces.backfill import Stored
from store.traces.calls.costs import NewCost

# Prices are left out, since an item keeps the one that it has, and the speed, which was not stored with it.
_NOT_COMPARED = ("speed", "rate_usd", "multiplier", "price_version", "cents")
_COMPARED = tuple(name for name in CostItem._fields if name not in _NOT_COMPARED)


def find_corrected_cost(stored: Stored, usage: Usage, prices: PriceTable) -> NewCost | None:
    """Return the cost of a stored call by the rules of today, from the usage that its response reports.

    Returns None where these come to the same line items, where the response is not what was counted,
    and where a known cost would be lost for want of a price."""
    call, old_items = stored.call, stored.cost_items
    if usage.source != call.usage_source:
        return None
    bill = price_again(call, usage, prices)
    if bill is None:
        return None
    items, cents = bill
    # Without items the cost tells what is free from what is unknown.
    is_same = _describe(items) == _describe(old_items) and (items or cents == call.cost_cents)
    # Every pass was priced at the speed of the call.
    if is_same and all(item.speed == usage.speed for item in items):
        return None
    return NewCost(usage_id=call.id, cost_cents=cents, cost_items=items)


def _describe(items: Sequence[CostItem]) -> list[tuple[object, ...]]:
    return [tuple(getattr(item, name) for name in _COMPARED) for item in items]
