"""Reading the usage of stored calls again, and pricing it, by the rules of today."""

from metering.billed_passes import make_call
from metering.entry import lacks_count
from metering.prices import PriceTable
from metering.pricing import Bill, price_call
from metering.request_facts import CacheTtl
from metering.usage import Usage, read_usage
from runtime import clock
from store.traces.backfill import StoredCall


def read_stored_usage(call: StoredCall, response: bytes, cache_ttl: CacheTtl | None) -> Usage:
    """Return the usage that a stored response reports. ``cache_ttl`` is that of its request."""
    return read_usage(
        call.status_code,
        "text/event-stream" if call.streamed else "application/json",
        response,
        is_complete=call.usage_source == "final",
        cache_ttl=cache_ttl,
    )


def price_again(call: StoredCall, usage: Usage, prices: PriceTable) -> Bill | None:
    """Return the line items and the cost of a stored call with this usage.

    Returns None where a known cost would be lost for want of a price. One of which a count is missing
    was never known."""
    items, cents = price_call(
        make_call(
            usage,
            created_at=clock.parse_instant(call.created_at),
            outcome=call.outcome,
            status_code=call.status_code,
        ),
        prices,
    )
    is_lost = cents is None and call.cost_cents is not None and not lacks_count(items)
    return None if is_lost else (items, cents)
