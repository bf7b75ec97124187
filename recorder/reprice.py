"""``python -m recorder.reprice``: price stored entries again, with the rules they are recorded by.

``taximeter reprice`` runs this. It prints one JSON document, ``{"repriced": 12}``.
"""

import argparse
import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing

from metering import pricing
from metering.prices import PriceFileError, PriceTable, load_prices
from runtime import clock
from runtime.settings import Settings, SettingsError
from store.traces.costs import NewCost, StoredCost
from store.traces.database import TraceDatabase
from store.traces.paths import find_trace_files

BATCH = 200


def reprice(database: TraceDatabase, table: PriceTable, *, everything: bool) -> int:
    """Returns how many entries have a new cost: those that had none, or all that changed."""
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
    """None when there is nothing to price, no price for it, or no change."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m recorder.reprice", description=__doc__)
    parser.add_argument("--all", action="store_true", help="not only entries without a cost")
    options = parser.parse_args(arguments)
    changed = 0
    try:
        settings = Settings.from_env()
        table = load_prices(settings.prices)
        for path in find_trace_files(settings.data_dir):
            with closing(TraceDatabase(path)) as database:
                changed += reprice(database, table, everything=options.all)
    except (SettingsError, PriceFileError, sqlite3.Error, OSError) as error:
        sys.exit(f"Error: {error}")
    print(json.dumps({"repriced": changed}))


if __name__ == "__main__":
    main()
