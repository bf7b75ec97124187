"""The results of message batches, each of which becomes an entry of its own.

A batch costs half of all prices, whatever service tier the message names. Results with errors are
not billed; canceled or expired requests never ran, so they are no calls. The results of a batch
come in any order, and as often as they are requested: an entry is identified by the batch and the
``custom_id``, which is unique in it."""

import hashlib
import re
from datetime import datetime

from metering.billed_passes import make_call
from metering.body_fields import make_response_fields
from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.usage import read_usage
from wire.batch_results import BatchResult

_ENTRY_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")


def make_entry_id(batch_id: str, custom_id: str) -> str:
    """Return the id of the entry for a result, the same each time that the result is read."""
    name = f"{batch_id}:{custom_id}"
    if _ENTRY_ID.fullmatch(name):
        return name
    return f"batch:{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:32]}"


def make_result_entry(
    result: BatchResult,
    batch_id: str,
    prices: PriceTable,
    *,
    created_at: str,
    proxy_endpoint_id: str,
    slug: str,
    upstream: str | None = None,
) -> UsageLogEntry:
    """Return the entry for a result of a request that ran.

    ``created_at`` is the instant that the entry is booked to, since a result does not say when it ran.
    Raises ValueError if that is not an instant."""
    is_success = result.type == "succeeded"
    status_code = 200 if is_success else None
    usage = read_usage(status_code, "application/json", result.body, is_complete=True)
    call = make_call(
        usage,
        created_at=datetime.fromisoformat(created_at),
        outcome="complete" if is_success else "upstream_error",
        status_code=status_code,
        product="batch",
        upstream=upstream,
    )
    items, cost_cents = price_call(call, prices)
    return UsageLogEntry(
        entry_id=make_entry_id(batch_id, result.custom_id),
        created_at=created_at,
        proxy_endpoint_id=proxy_endpoint_id,
        slug=slug,
        upstream=upstream,
        outcome=call.outcome,
        usage_source=usage.source,
        streamed=False,
        product=call.product,
        model=usage.model,
        tokens=usage.tokens,
        cost_cents=cost_cents,
        cost_items=items,
        status_code=status_code,
        response_body=result.body,
        service_tier=usage.service_tier,
        speed=usage.speed,
        inference_geo=usage.inference_geo,
        error_type=usage.error_type,
        upstream_request_id=result.request_id,
        **make_response_fields(usage, result.body),
    )
