"""Pricing stored entries again, from their line items."""

from metering import pricing
from metering.prices import PriceTable
from runtime import clock
from store.traces.costs import NewCost, StoredCost
from store.traces.database import TraceDatabase

BATCH = 200


def reprice(database: TraceDatabase, table: PriceTable, *, everything: bool) -> int:
    """Price stored entries again, with the rules they are recorded by.

    Returns how many entries have a new cost: those that had none, or with ``everything`` all whose
    cost changed. Raises sqlite3.Error."""
    changed = 0
    batch: list[NewCost] = []
    for stored in database.iter_costs() if everything else database.iter_unpriced():
        new = find_new_cost(stored, table)
        if new is not None:
            batch.append(new)
        if len(batch) >= BATCH:
            changed += database.update_costs(batch)
            batch.clear()
    return changed + database.update_costs(batch)


def find_new_cost(stored: StoredCost, table: PriceTable) -> NewCost | None:
    """Return the cost that an entry has by this table. None when there is nothing to price, no
    price for it, or no change."""
    if not stored.cost_items:
        return None
    items, total = pricing.reprice(
        stored.cost_items,
        clock.parse_instant(stored.created_at),
        stored.service_tier,
        stored.speed,
        stored.inference_geo,
        table,
    )
    if total is None:
        return None
    if stored.cost_cents is not None and float(total) == float(stored.cost_cents):
        return None
    return NewCost(usage_id=stored.usage_id, cost_cents=total, cost_items=items)
