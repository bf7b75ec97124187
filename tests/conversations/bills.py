"""Entries with the line items that the recorder would have made of a response."""

from datetime import UTC, datetime

from metering.billed_passes import make_call
from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.usage import Usage

PRICES = PriceTable()
AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def bill_of(usage: Usage) -> UsageLogEntry:
    """Return the entry of a call with this usage, as far as its bill goes."""
    call = make_call(usage, created_at=AT, outcome="complete", status_code=200)
    items, cents = price_call(call, PRICES)
    return UsageLogEntry(
        entry_id="e",
        created_at=AT.isoformat(),
        proxy_endpoint_id="pe",
        slug="default",
        outcome="complete",
        usage_source=usage.source,
        streamed=usage.streamed,
        model=usage.model,
        tokens=usage.tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        cost_items=items,
        cost_cents=cents,
    )
