"""The usage log entry: the record of one call, made by the recorder and stored in the trace database."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple

from metering.billing import Billing
from metering.delivered import OutputSize
from metering.rate_limits import Limit, RateLimits
from metering.token_counts import UNKNOWN, TokenCounts
from metering.tool_uses import ToolUse
from wire.block import CacheTtl
from wire.request import ThreadStep

type Outcome = Literal[
    "complete",
    "upstream_error",
    "upstream_interrupted",
    "upstream_unreachable",
    "upstream_timeout",
    "client_disconnected",
    "proxy_restarted",
]
# A client that disconnects (a person pressing Esc) is not an error.
NO_ERROR: tuple[Outcome, ...] = ("complete", "client_disconnected")
# `estimated`: the response was cut, and its output was counted by what was delivered. `partial`: the
# same, where a part of that is lost, or a stop reason has come: the output is what upstream had counted.
type UsageSource = Literal["final", "estimated", "partial", "none", "imported"]
# The interface of the upstream that a call was made by, which decides its prices.
type Product = Literal["messages", "batch", "chat_completions"]
# Why upstream does not bill a line: a refusal before any output, the same of a model that handed over
# to a fallback, or a response that is an error.
type UnbilledReason = Literal["refused_before_output", "declined_hop", "failed"]
# What makes a price less certain: the counts are a sum of several passes that upstream does not list,
# so a price that depends on the size of one prompt may be the wrong one; or an estimate leaves out
# thinking that is not shown, or tokens that a stream had not counted by the time when it was cut. Where
# the response leaves out a count that it must have, the quantity is 0 and the price unknown.
type CostNote = Literal["sum_of_passes", "hidden_thinking", "uncounted_tokens", "count_missing"]

COUNT_MISSING: CostNote = "count_missing"


class CostItem(NamedTuple):
    """One line of an entry's bill: a quantity of one component in one pass of the model.

    ``metering/components.py`` lists the components. ``pass_index`` counts the passes of the call (0 if
    there is only one); each pass has its own model, its own speed and its own prompt size, which
    decides the price tier. ``rate_usd`` is the list price in US dollars per million tokens (per
    thousand for ``web_search``) and ``multiplier`` the factor for geography and batch. ``cents`` =
    quantity / unit x rate x multiplier x 100. Rate, multiplier, price version and cents are None before
    the item is priced, and if the model has no known price.

    A line with an ``unbilled_reason`` has the multiplier 0 and costs 0 cents, whether its price is
    known or not. ``speed`` is that of the pass, None if unknown. ``estimated``: the quantity is
    estimated from the delivered part of a stream that was cut off."""

    pass_index: int
    model: str | None
    component: str
    quantity: int
    prompt_tokens: int
    speed: str | None = None
    unbilled_reason: UnbilledReason | None = None
    note: CostNote | None = None
    estimated: bool = False
    rate_usd: Decimal | None = None
    multiplier: Decimal | None = None
    price_version: str | None = None
    cents: Decimal | None = None


def lacks_count(items: Iterable[CostItem]) -> bool:
    """Return whether the response left out a count, so that the cost is unknown with any price list."""
    return any(item.note == COUNT_MISSING for item in items)


def sum_estimates(items: Iterable[CostItem]) -> Decimal | None:
    """Return the cost of the items with an estimated quantity, in US cents.

    None if nothing is estimated, or if the price is unknown."""
    estimates = [item.cents for item in items if item.estimated and item.cents is not None]
    return sum(estimates, Decimal(0)) if estimates else None


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class UsageLogEntry:
    """The record of one forwarded request. Tokens are counts, cost is in US cents, times in ms.

    Sizes are in bytes on the wire. Bodies are the exact bytes after content-decoding, None if not kept.
    ``body_notes`` says which parts of them are missing and why, None if none. ``client_hints`` is a
    JSON object of the hints without a field of their own, ``tags`` a JSON list. ``estimated_cents`` is
    the estimated part of the cost, None without one. ``output_size`` is that of a complete response
    that was measured."""

    entry_id: str
    created_at: str
    proxy_endpoint_id: str
    slug: str
    outcome: Outcome
    usage_source: UsageSource
    streamed: bool
    model: str | None = None
    tokens: TokenCounts = UNKNOWN
    cost_cents: Decimal | None = None
    cost_items: tuple[CostItem, ...] = ()
    duration_ms: float | None = None
    ttfb_ms: float | None = None
    proxy_overhead_ms: float | None = None
    status_code: int | None = None
    request_body: bytes | None = None
    response_body: bytes | None = None
    request_model: str | None = None
    upstream_request_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    client: str | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    retry_count: int | None = None
    request_bytes: int | None = None
    response_bytes: int | None = None
    error_type: str | None = None
    credential_hmac: str | None = None
    body_notes: str | None = None
    path_query: str | None = None
    api_version: str | None = None
    betas: str | None = None
    max_tokens: int | None = None
    message_count: int | None = None
    tool_count: int | None = None
    run_id: str | None = None
    stop_reason: str | None = None
    refusal_category: str | None = None
    thinking_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    web_search_requests: int | None = None
    output_tokens_per_s: float | None = None
    effort: str | None = None
    thinking_budget: int | None = None
    cache_ttl: CacheTtl | None = None
    title_text: str | None = None
    said_text: str | None = None
    parent_agent_id: str | None = None
    request_class: str | None = None
    prompt_id: str | None = None
    client_hints: str | None = None
    billing: Billing | None = None
    overage: bool | None = None
    upstream_organization_id: str | None = None
    workspace_id: str | None = None
    estimated_cents: Decimal | None = None
    message_id: str | None = None
    thread: ThreadStep | None = None
    thread_previous_id: str | None = None
    user_profile_id: str | None = None
    product: Product = "messages"
    container_id: str | None = None
    free_containers: bool | None = None
    container_unnamed: bool | None = None
    changed_by_upstream: str | None = None
    attributed_user: str | None = None
    project: str | None = None
    tags: str | None = None
    attributes_left_out: int | None = None
    upstream: str | None = None
    limited_by: Limit | None = None
    rate_limits: RateLimits | None = None
    output_size: OutputSize | None = None
    tool_uses: tuple[ToolUse, ...] = ()
