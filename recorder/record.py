"""Making the usage log entry of a spooled exchange: a pure function that always returns one.

The proxy knows how the exchange went on the wire; what the response says about itself refines that:

    on the wire                     in the body                              outcome
    complete, or client left        status >= 400, or an error               upstream_error
    failed in another way           -                                        as on the wire
    complete                        a stream without stop reason and stop    upstream_interrupted
    complete                        anything else                            complete

A stream is not called interrupted on the strength of bytes that were lost or could not be decoded.
Values that come from outside are bounded and cleaned, because they land in a narrow, indexed row.
"""

import math
from datetime import datetime
from typing import Any

from metering.billed_passes import Call, make_call
from metering.billing import find_billing
from metering.body_fields import calculate_speed, make_request_fields, make_response_fields
from metering.entry import NO_ERROR, Outcome, UsageLogEntry, sum_estimates
from metering.limit_windows import fingerprint_account, name_account
from metering.metadata_only import drop_text
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.rate_limits import RateLimits, find_limit, parse_limits
from metering.request_facts import RequestFacts
from metering.usage import Usage
from recorder.exchange_content import ExchangeContent, is_chat, read_content
from recorder.header_fields import make_request_head_fields, make_response_head_fields
from recorder.kept_bodies import find_request_body, find_response_body, note_missing
from recorder.output_sizes import ConstantSizes, SizeSource
from recorder.recorded_calls import RecordedCall
from recorder.requests import Requests
from runtime import clock
from store.spool.format import RequestHead, SpooledExchange
from wire.json_reading import clean_text

CONSTANT_SIZES = ConstantSizes()


def make_entry(
    exchange: SpooledExchange,
    prices: PriceTable,
    requests: Requests,
    sizes: SizeSource = CONSTANT_SIZES,
) -> UsageLogEntry:
    """Return the entry of an exchange. For arguments and errors see ``make_recorded``."""
    return make_recorded(exchange, prices, requests, sizes).entry


def make_recorded(
    exchange: SpooledExchange,
    prices: PriceTable,
    requests: Requests,
    sizes: SizeSource = CONSTANT_SIZES,
) -> RecordedCall:
    """Return the entry of an exchange, with everything that was read to make it.

    For ``requests`` and ``sizes`` see ``read_content``. Raises ValueError only if the proxy's own
    ``created_at`` is not an instant."""
    created_at = clock.parse_instant(exchange.head.created_at)
    content = read_content(exchange, requests, sizes)
    bill = _make_bill(exchange, content, created_at)
    entry = _make_entry(exchange, content, bill, prices)
    request = None
    if entry.request_body is not None and not is_chat(exchange):
        request = content.request.text
    return RecordedCall(
        entry=drop_text(entry) if exchange.head.metadata_only else entry,
        usage=content.usage,
        bill=bill,
        request=request,
        response=content.response.text,
        read_request=content.read_request,
        tool_results=content.facts.tool_results,
    )


def _make_bill(exchange: SpooledExchange, content: ExchangeContent, created_at: datetime) -> Call:
    response = exchange.response
    return make_call(
        content.usage,
        created_at=created_at,
        outcome=_refine_outcome(exchange, content),
        status_code=response.status_code if response else None,
        product="chat_completions" if is_chat(exchange) else "messages",
        upstream=exchange.head.upstream,
    )


def _make_entry(
    exchange: SpooledExchange, content: ExchangeContent, bill: Call, prices: PriceTable
) -> UsageLogEntry:
    head, response, ending = exchange.head, exchange.response, exchange.ending
    facts, usage = content.facts, content.usage
    items, cost_cents = price_call(bill, prices)
    ttfb_ms = _round(exchange.ttfb_ms)
    limits = _read_limits(exchange, facts, bill.created_at, ttfb_ms)
    return UsageLogEntry(
        outcome=bill.outcome,
        usage_source=usage.source,
        streamed=usage.streamed and response is not None,
        product=bill.product,
        model=usage.model,
        tokens=usage.tokens,
        service_tier=usage.service_tier,
        speed=usage.speed,
        inference_geo=usage.inference_geo,
        cost_cents=cost_cents,
        cost_items=items,
        estimated_cents=sum_estimates(items),
        output_size=content.output_size,
        request_body=find_request_body(exchange, content),
        response_body=find_response_body(exchange, content),
        body_notes=note_missing(exchange, content),
        response_bytes=ending.response_bytes,
        error_type=usage.error_type or clean_text(ending.error_type),
        session_id=clean_text(head.session_id) or clean_text(facts.session_id),
        workspace_id=clean_text(response.workspace_id if response else None)
        or clean_text(head.workspace_id),
        billing=find_billing(
            head.credential_kind, limits, bill_to=facts.bill_to, status_code=bill.status_code
        ),
        overage=limits.is_overage if limits else None,
        limited_by=find_limit(response.status_code, limits) if response else None,
        rate_limits=limits,
        **_make_time_fields(exchange, usage, ttfb_ms),
        **make_request_head_fields(head),
        **make_response_head_fields(response),
        **make_request_fields(facts),
        **make_response_fields(usage, content.response.text),
    )


def _make_time_fields(
    exchange: SpooledExchange, usage: Usage, ttfb_ms: float | None
) -> dict[str, Any]:
    """Return the fields of an entry that are times or follow from them, by name."""
    ending = exchange.ending
    lasted_ms = exchange.last_byte_ms if ending.duration_ms is None else ending.duration_ms
    duration_ms = _round(lasted_ms)
    return {
        "duration_ms": duration_ms,
        "ttfb_ms": ttfb_ms,
        "proxy_overhead_ms": _round(ending.proxy_overhead_ms),
        "output_tokens_per_s": calculate_speed(
            streamed=usage.streamed,
            source=usage.source,
            output_tokens=usage.tokens.output_tokens,
            duration_ms=duration_ms,
            ttfb_ms=ttfb_ms,
        ),
    }


def _read_limits(
    exchange: SpooledExchange, facts: RequestFacts, created_at: datetime, ttfb_ms: float | None
) -> RateLimits | None:
    """Return the rate limits in the head of the response, with the account that they are of, or None."""
    response = exchange.response
    if response is None:
        return None
    received_s = created_at.timestamp() + (ttfb_ms or 0) / 1000
    limits = parse_limits(response.rate_limits, received_s)
    if limits is None or not limits.is_unified:
        return limits
    account = _find_account(exchange.head, facts, response.upstream_organization_id)
    return limits._replace(account=account)


def _find_account(
    head: RequestHead, facts: RequestFacts, upstream_organization_id: str | None
) -> str | None:
    """Return the account whose subscription a call uses, or the credential if the call names no account.

    The credential of an account changes whenever the client renews its token."""
    account_hmac = head.account_hmac
    if account_hmac is None and facts.account_id:
        account_hmac = fingerprint_account(facts.account_id, head.organization_id)
    if account_hmac is None:
        return clean_text(head.credential_hmac)
    return name_account(account_hmac, upstream_organization_id)


def _refine_outcome(exchange: SpooledExchange, content: ExchangeContent) -> Outcome:
    response, outcome = exchange.response, exchange.ending.outcome
    usage = content.usage
    # A client may leave as soon as it has read of the error: that did not make the call fail.
    if outcome not in NO_ERROR or response is None:
        return outcome
    if response.status_code >= 400 or usage.has_error:
        return "upstream_error"
    if outcome == "client_disconnected":
        return outcome
    has_end = usage.has_message_stop or usage.stop_reason is not None
    if usage.streamed and content.has_whole_response and not has_end:
        return "upstream_interrupted"
    return "complete"


def _round(milliseconds: float | None) -> float | None:
    if milliseconds is None or not math.isfinite(milliseconds):
        return None
    return round(milliseconds, 1)
