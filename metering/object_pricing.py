"""The prices of managed sessions and dreams."""

from datetime import datetime
from decimal import Decimal

from metering.billed_passes import make_call
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.upstream_objects import UpstreamObject
from metering.usage import Usage

# "Pricing" of the vendor's documentation, as read on 2026-11-23: $0.08 for an hour in which a session runs.
CENTS_PER_ACTIVE_SECOND = Decimal(8) / 3600


def price_object(
    found: UpstreamObject, prices: PriceTable, read_at: datetime, upstream: str | None = None
) -> Decimal | None:
    """Return the cost so far of an object in cents, or None if a price or a count is unknown.

    ``upstream`` is the endpoint's own upstream. Prices are those of the day on which the object was
    created or, if unknown, read."""
    usage = Usage(
        streamed=False,
        source="final" if found.tokens.are_known else "none",
        model=found.model,
        tokens=found.tokens,
        cache_write_1h_tokens=found.cache_write_1h_tokens,
        web_search_requests=found.web_search_requests,
        speed=found.speed,
    )
    call = make_call(
        usage,
        created_at=datetime.fromisoformat(found.created_at) if found.created_at else read_at,
        outcome="complete",
        status_code=200,
        upstream=upstream,
    )
    # A sum of many prompts says nothing of the size of one, which may have a price of its own.
    call.items = [item._replace(prompt_tokens=0) for item in call.items]
    cents = price_call(call, prices)[1]
    if cents is None or found.active_seconds is None:
        return cents
    return cents + Decimal(repr(found.active_seconds)) * CENTS_PER_ACTIVE_SECOND
