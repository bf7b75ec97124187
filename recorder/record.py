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
import re
from functools import lru_cache, partial

import orjson

from metering.billed_passes import make_call
from metering.billing import find_billing
from metering.body_fields import calculate_speed, make_request_fields, make_response_fields
from metering.body_notes import Reason, Side, format_note, join_notes
from metering.chat_completions import read_chat_usage
from metering.client_hints import (
    COLUMNS,
    PARENT_AGENT_ID,
    PROMPT_ID,
    REQUEST_CLASS,
    keep_identifiers,
)
from metering.cut_streams import estimate_usage
from metering.entry import NO_ERROR, Outcome, UsageLogEntry, sum_estimates
from metering.limit_windows import fingerprint_account, name_account
from metering.metadata_only import drop_text
from metering.output_estimate import is_estimable, measure_output
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.rate_limits import find_limit, parse_limits
from metering.request_facts import RequestFacts, make_facts
from metering.usage import Usage, read_usage
from recorder.output_sizes import ConstantSizes, SizeSource
from recorder.recorded_calls import RecordedCall
from recorder.requests import Requests
from runtime import clock
from store.spool.format import RequestHead, SpooledExchange
from wire.decode import DecodedBody, decode_body
from wire.json_reading import clean_text

MAX_RETRIES = 1_000_000
MAX_AGENT_CHARS = 1_000  # of a User-Agent header; the product is its beginning
MAX_PATH_CHARS, MAX_BETAS_CHARS, MAX_HINT_CHARS = 2_000, 1_000, 4_096
_UNDECODED: dict[str, Reason] = {
    "corrupt": "damaged encoding",
    "unknown_encoding": "unknown encoding",
    "too_many_encodings": "too many encodings",
    "too_large": "too large to decode",
}
CONSTANT_SIZES = ConstantSizes()
NO_BODY = DecodedBody(body=b"", text=b"")
_LANGUAGE = re.compile(r"/[^0-9/]+$")
_VERSION = re.compile(r"v?[0-9][\w.+-]*", re.ASCII)


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

    The memory of ``requests`` saves time and does not change the result; ``sizes`` has the characters
    per token for estimating the output of a cut stream. Raises ValueError only if the proxy's own
    ``created_at`` is not an instant."""
    head, response, ending = exchange.head, exchange.response, exchange.ending
    created_at = clock.parse_instant(head.created_at)
    request = decode_body(exchange.request_body or b"", head.content_encoding)
    read_request = None
    if exchange.request_body is not None:
        read_request = requests.read(request.text, head.session_id, head.agent_id)
    facts = head.facts if read_request is None else make_facts(read_request.fields)
    response_body = (
        decode_body(exchange.response_body, response.content_encoding) if response else NO_BODY
    )
    has_whole_response = response_body.is_readable_to_its_end and not ending.response_lost
    is_chat = head.record == "chat_completions"
    read = read_chat_usage if is_chat else partial(read_usage, cache_ttl=facts.cache_ttl)
    usage = read(
        response.status_code if response else None,
        response.content_type if response else None,
        response_body.text,
        is_complete=ending.outcome == "complete" and has_whole_response,
    )
    output_size = None
    # What was delivered is counted in messages alone.
    if is_estimable(usage) and has_whole_response and not is_chat:
        find_size = partial(sizes.find_size, head.organization_id)
        usage = estimate_usage(usage, response_body.text, find_size, request.text)
    elif (
        usage.source == "final"
        and not is_chat
        and sizes.is_wanted(head.organization_id, usage.model)
    ):
        output_size = measure_output(usage, response_body.text)
    outcome = _refine_outcome(exchange, usage, has_whole_response=has_whole_response)
    status_code = response.status_code if response else None
    call = make_call(
        usage,
        created_at=created_at,
        outcome=outcome,
        status_code=status_code,
        product="chat_completions" if is_chat else "messages",
        upstream=head.upstream,
    )
    items, cost_cents = price_call(call, prices)
    duration_ms = _round(
        exchange.last_byte_ms if ending.duration_ms is None else ending.duration_ms
    )
    ttfb_ms = _round(exchange.ttfb_ms)
    received_s = created_at.timestamp() + (ttfb_ms or 0) / 1000
    limits = parse_limits(response.rate_limits, received_s) if response else None
    if response is not None and limits is not None and limits.is_unified:
        limits = limits._replace(
            account=_find_account(head, facts, response.upstream_organization_id)
        )
    hints = _read_hints(head)
    keeps_bodies = not head.metadata_only
    has_request = exchange.request_body is not None
    is_whole = keeps_bodies and has_request and has_whole_response and request.problem is None
    body_notes = None
    if not is_whole:
        body_notes = join_notes(
            _note_request(exchange, request), _note_response(exchange, response_body)
        )
    entry = UsageLogEntry(
        entry_id=head.entry_id,
        created_at=head.created_at,
        proxy_endpoint_id=head.proxy_endpoint_id,
        slug=head.slug,
        outcome=outcome,
        usage_source=usage.source,
        streamed=usage.streamed and response is not None,
        product=call.product,
        model=usage.model,
        tokens=usage.tokens,
        cost_cents=cost_cents,
        cost_items=items,
        estimated_cents=sum_estimates(items),
        duration_ms=duration_ms,
        ttfb_ms=ttfb_ms,
        proxy_overhead_ms=_round(ending.proxy_overhead_ms),
        status_code=status_code,
        request_body=request.body if keeps_bodies and has_request else None,
        response_body=response_body.body if keeps_bodies and response else None,
        upstream_request_id=clean_text(response.upstream_request_id) if response else None,
        session_id=clean_text(head.session_id) or clean_text(facts.session_id),
        agent_id=clean_text(head.agent_id),
        client=parse_product(head.user_agent),
        service_tier=usage.service_tier,
        speed=usage.speed,
        inference_geo=usage.inference_geo,
        retry_count=_parse_retry_count(head.retry_count),
        request_bytes=head.request_bytes,
        response_bytes=ending.response_bytes,
        error_type=usage.error_type or clean_text(ending.error_type),
        credential_hmac=clean_text(head.credential_hmac),
        body_notes=body_notes,
        path_query=clean_text(head.path_query, MAX_PATH_CHARS),
        api_version=clean_text(head.api_version),
        betas=clean_text(head.betas, MAX_BETAS_CHARS),
        run_id=clean_text(head.run_id),
        parent_agent_id=clean_text(hints.get(PARENT_AGENT_ID)),
        request_class=clean_text(hints.get(REQUEST_CLASS)),
        prompt_id=clean_text(hints.get(PROMPT_ID)),
        client_hints=_format_hints(hints),
        billing=find_billing(
            head.credential_kind, limits, bill_to=facts.bill_to, status_code=status_code
        ),
        overage=limits.is_overage if limits else None,
        upstream_organization_id=clean_text(response.upstream_organization_id)
        if response
        else None,
        workspace_id=clean_text(response.workspace_id if response else None)
        or clean_text(head.workspace_id),
        user_profile_id=clean_text(head.user_profile_id),
        attributed_user=head.attributed_user,
        project=head.project,
        tags=head.tags,
        attributes_left_out=head.attributes_left_out,
        upstream=head.upstream,
        limited_by=find_limit(response.status_code, limits) if response else None,
        rate_limits=limits,
        output_size=output_size,
        **make_request_fields(facts),
        **make_response_fields(usage, response_body.text),
        output_tokens_per_s=calculate_speed(
            streamed=usage.streamed,
            source=usage.source,
            output_tokens=usage.tokens.output_tokens,
            duration_ms=duration_ms,
            ttfb_ms=ttfb_ms,
        ),
    )
    return RecordedCall(
        entry=drop_text(entry) if head.metadata_only else entry,
        usage=usage,
        bill=call,
        request=request.text if has_request and keeps_bodies and not is_chat else None,
        response=response_body.text,
        read_request=read_request,
        tool_results=facts.tool_results,
    )


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


def _read_hints(head: RequestHead) -> dict[str, str]:
    """Return the hints of the client, only identifiers if no text is kept."""
    hints = head.client_hints or {}
    if not head.metadata_only:
        return hints
    return keep_identifiers(hints)


def _format_hints(hints: dict[str, str]) -> str | None:
    """Return the JSON of the hints that have no column of their own."""
    others = {
        name: clean_text(value, MAX_HINT_CHARS)
        for name, value in hints.items()
        if name not in COLUMNS
    }
    return orjson.dumps(others, option=orjson.OPT_SORT_KEYS).decode() if others else None


def _note_request(exchange: SpooledExchange, decoded: DecodedBody) -> str | None:
    if exchange.head.metadata_only:
        return format_note("request", "not kept", "metadata only")
    if exchange.request_body is None:
        # The proxy leaves a body out for one of two reasons, and knows no size of one too large.
        is_too_large = exchange.head.request_bytes is None
        return format_note(
            "request", "not kept", "too large to hold" if is_too_large else "disk reserve"
        )
    return _note_decoding("request", decoded)


def _note_response(exchange: SpooledExchange, decoded: DecodedBody) -> str | None:
    has_begun = exchange.response is not None
    if exchange.ending.response_lost:
        return format_note(
            "response", "incomplete" if has_begun else "not kept", "spool not writable"
        )
    if exchange.head.metadata_only:
        return format_note("response", "not kept", "metadata only") if has_begun else None
    return _note_decoding("response", decoded)


def _note_decoding(side: Side, decoded: DecodedBody) -> str | None:
    # What was cut on its way is decoded as far as it came: nothing of it is missing.
    if decoded.problem is None or decoded.problem == "truncated":
        return None
    return format_note(side, "as received", _UNDECODED[decoded.problem])


def _refine_outcome(
    exchange: SpooledExchange, usage: Usage, *, has_whole_response: bool
) -> Outcome:
    response, outcome = exchange.response, exchange.ending.outcome
    # A client may leave as soon as it has read of the error: that did not make the call fail.
    if outcome not in NO_ERROR or response is None:
        return outcome
    if response.status_code >= 400 or usage.has_error:
        return "upstream_error"
    if outcome == "client_disconnected":
        return outcome
    has_end = usage.has_message_stop or usage.stop_reason is not None
    if usage.streamed and has_whole_response and not has_end:
        return "upstream_interrupted"
    return "complete"


def parse_product(user_agent: str | None) -> str | None:
    """Return the product that a User-Agent header names first, with its version."""
    return _parse_product((user_agent or "")[:MAX_AGENT_CHARS])


@lru_cache(maxsize=1_000)  # many calls come from the same client
def _parse_product(user_agent: str) -> str | None:
    """Return the first product with its version: ``claude-cli/2.1`` for ``claude-cli/2.1 (external)``.

    After the slash there may be a language, and the version in the next word, as in ``Anthropic/Python
    2.11.0``."""
    words = user_agent.split(maxsplit=2)
    if len(words) > 1 and _LANGUAGE.search(words[0]) and _VERSION.fullmatch(words[1]):
        return clean_text(f"{words[0]} {words[1]}")
    return clean_text(words[0]) if words else None


def _parse_retry_count(header: str | None) -> int | None:
    text = (header or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > len(str(MAX_RETRIES)):
        return None
    return min(int(text), MAX_RETRIES)


def _round(milliseconds: float | None) -> float | None:
    if milliseconds is None or not math.isfinite(milliseconds):
        return None
    return round(milliseconds, 1)
