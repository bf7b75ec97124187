"""Repricing of stored data: entries by line items, managed sessions and dreams by counts."""

from dataclasses import replace
from decimal import Decimal

from metering.object_pricing import price_object
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.rewrites import price_stored_rewrite
from runtime import clock
from store.traces.calls.costs import NewCost, StoredCost
from store.traces.database import TraceDatabase

BATCH = 200


def reprice(database: TraceDatabase, table: PriceTable, *, everything: bool) -> int:
    """Price stored entries, managed sessions and dreams again, by the rules for recording.

    Only those without a cost are priced, or with ``everything`` all. Returns the number of changed
    costs. Raises sqlite3.Error."""
    changed = _reprice_objects(database, table, only_unpriced=not everything)
    batch: list[NewCost] = []
    for stored in database.iter_costs() if everything else database.iter_unpriced():
        new = find_new_cost(stored, table)
        if new is not None:
            batch.append(new)
        if len(batch) >= BATCH:
            changed += database.update_costs(batch)
            batch.clear()
    return changed + database.update_costs(batch)


def _reprice_objects(database: TraceDatabase, table: PriceTable, *, only_unpriced: bool) -> int:
    changed = 0
    for reading, known in database.list_upstream_objects(only_unpriced=only_unpriced):
        at = clock.parse_instant(reading.read_at)
        cents = price_object(known, table, at, reading.upstream)
        if cents is not None and not _is_same(known.cost_cents, cents):
            database.write_upstream_objects(reading, [replace(known, cost_cents=cents)])
            changed += 1
    return changed


def find_new_cost(stored: StoredCost, table: PriceTable) -> NewCost | None:
    """Return the cost of an entry by this price table, with that of its cache break, or None.

    None means that there is no price for it, or no change."""
    items, total = price_call(stored.call, table)
    if total is None:
        return None
    broken_cents = None
    if stored.broken_tokens is not None:
        broken_cents = price_stored_rewrite(stored.broken_tokens, stored.call, table)
    if _is_same(stored.cost_cents, total) and (
        broken_cents is None or _is_same(stored.broken_cents, broken_cents)
    ):
        return None
    return NewCost(
        usage_id=stored.usage_id, cost_cents=total, cost_items=items, broken_cents=broken_cents
    )


def _is_same(stored: Decimal | float | None, new: Decimal) -> bool:
    return stored is not None and float(stored) == float(new)
