"""The usage that a response reports, with its model, stop reason and error.

``wire`` parses the response; here its content becomes counts, passes and models that declined.
Cache writes are kept for five minutes or for an hour. Upstream reports how many tokens of each,
though perhaps of fewer than the final total: the reported split is used, and the rest has the
lifetime in the request."""

from dataclasses import dataclass, field

from metering import output, token_counts
from metering.entry import CostNote, UsageSource
from metering.token_counts import UNKNOWN, TokenCounts
from wire.block import CODE_EXECUTION
from wire.content import read_content
from wire.envelope import (
    NO_ENVELOPE,
    REFUSAL,
    Envelope,
    Fallback,
    is_document,
    read_envelope,
)
from wire.sse import looks_like_sse
from wire.usage_object import UsageObject

MAX_PASSES = 1_000
LARGE_PROMPT_TOKENS = 100_000  # no price changes with the size of a smaller prompt
_SERVER_TOOLS = tuple(
    b'"type":%s"%s_tool_use"' % (space, kind)
    for kind in (b"server", b"mcp")
    for space in (b"", b" ")
)


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Pass:
    """One run of a model within the call.

    ``model`` is None if it is that of the call, ``speed`` if upstream names none for the pass.
    ``cache_write_1h_tokens`` are the cache writes with a lifetime of an hour; the others have five
    minutes. ``estimates_prompt`` and ``estimates_output``: upstream has not counted these tokens.
    ``note`` says why the output is less certain."""

    type: str | None
    model: str | None
    tokens: TokenCounts
    cache_write_1h_tokens: int = 0
    speed: str | None = None
    estimates_prompt: bool = False
    estimates_output: bool = False
    note: CostNote | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """A model that declined, and the model that it handed over to.

    ``has_output``: some content came from it before."""

    from_model: str | None
    to_model: str | None
    category: str | None
    has_output: bool


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Usage:
    """The usage of a response.

    ``tokens`` are the top-level counts. ``has_error`` may be true without an ``error_type``.
    ``passes_are_stale``: the counts changed after the passes were listed. ``is_sum``: the counts are
    known to be of several passes, which are not listed. ``hops`` are the models that declined, in
    order. ``is_empty``: no content came from the last model; it is only determined after a refusal, a
    fallback or an error status, and False otherwise. ``container_unnamed``: code ran, and the stream
    was cut before it named the container. ``envelope`` is the response that this was read from."""

    streamed: bool
    is_document: bool = False
    source: UsageSource = "none"
    model: str | None = None
    tokens: TokenCounts = UNKNOWN
    cache_write_1h_tokens: int = 0
    web_search_requests: int | None = None
    thinking_tokens: int | None = None
    passes: tuple[Pass, ...] = ()
    passes_are_stale: bool = False
    is_sum: bool = False
    hops: tuple[Hop, ...] = ()
    is_empty: bool = False
    refusal_category: str | None = None
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    stop_reason: str | None = None
    container_id: str | None = None
    container_unnamed: bool | None = None
    has_message_stop: bool = False
    has_error: bool = False
    error_type: str | None = None
    envelope: Envelope = field(default_factory=lambda: NO_ENVELOPE, compare=False, repr=False)


def read_usage(
    status: int | None,
    content_type: str | None,
    body: bytes,
    *,
    is_complete: bool,
    cache_ttl: str | None = None,
) -> Usage:
    """Return the usage in a decoded body, whole or cut off. Never raises.

    ``is_complete``: upstream ended the response, and all of it is here. ``cache_ttl`` is the lifetime
    that the request asks for its cache writes; it is used if upstream reports none."""
    said = read_envelope(body)
    is_failed = status is not None and status >= 400
    usage = said.usage
    tokens, cache_write_1h_tokens = read_tokens(usage, cache_ttl)
    passes = _read_passes(usage, tokens, cache_write_1h_tokens, cache_ttl)
    outputs = _find_outputs(said, body, is_failed=is_failed)
    source = _find_source(said, tokens, is_complete=is_complete)
    return Usage(
        # The header decides the kind of the response: gateways send JSON errors as text/event-stream.
        streamed=is_sse(content_type, body),
        is_document=said.is_document,
        source=source,
        model=said.model,
        tokens=tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
        web_search_requests=usage.web_searches,
        thinking_tokens=usage.count_part("output_tokens_details", "thinking_tokens"),
        passes=passes,
        passes_are_stale=bool(passes) and usage.passes_are_stale,
        is_sum=not passes and _is_sum(tokens, usage, body),
        hops=tuple(map(_make_hop, said.fallbacks, outputs)),
        is_empty=bool(outputs) and not outputs[-1],
        refusal_category=said.refusal_category,
        service_tier=usage.text("service_tier"),
        speed=usage.text("speed"),
        inference_geo=usage.text("inference_geo"),
        stop_reason=said.stop_reason,
        container_id=said.container_id,
        container_unnamed=_runs_unnamed(said, source, body) or None,
        has_message_stop=said.has_end,
        has_error=said.is_error or (said.is_document and is_failed),
        error_type=said.error_type if said.is_error or is_failed else None,
        envelope=said,
    )


def _find_source(said: Envelope, tokens: TokenCounts, *, is_complete: bool) -> UsageSource:
    """Return whether the counts are final, partial or missing.

    A stop reason counts as the end, unless a later delta may have been cut off."""
    if not tokens.are_known:
        return "none"
    is_final = said.is_document or said.has_end or (is_complete and said.stop_reason is not None)
    return "final" if is_final else "partial"


def _runs_unnamed(said: Envelope, source: UsageSource, body: bytes) -> bool:
    """Return whether code ran in a container that the response does not name because its end is missing."""
    if source == "final" or said.container_id is not None or CODE_EXECUTION.encode() not in body:
        return False
    return any(block.runs_code for block in read_content(body).blocks)


def _find_outputs(said: Envelope, body: bytes, *, is_failed: bool) -> list[bool]:
    """Return for each model of the content whether any output came from it.

    Empty if the bill does not depend on it."""
    if not (is_failed or said.fallbacks or said.stop_reason == REFUSAL):
        return []
    if is_document(body) and not said.is_document:  # it cannot be parsed
        return []
    return output.find_outputs(read_content(body), len(said.fallbacks) + 1)


def _make_hop(said: Fallback, has_output: bool) -> Hop:
    return Hop(
        from_model=said.from_model,
        to_model=said.to_model,
        category=said.category,
        has_output=has_output,
    )


def is_sse(content_type: str | None, body: bytes) -> bool:
    """Return whether a response is an event stream, by its header or, without one, by its beginning."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    return media_type == "text/event-stream" if media_type else looks_like_sse(body)


def read_tokens(raw: UsageObject, cache_ttl: str | None = None) -> tuple[TokenCounts, int]:
    """Return the counts, and the number of cache writes with a lifetime of an hour.

    The total of the cache writes takes precedence over its split, which upstream may send earlier."""
    counts = {name: raw.count(name) for name in token_counts.NAMES}
    write_5m, write_1h = raw.split_writes
    total = counts["cache_creation_input_tokens"]
    if total is None and (write_5m is not None or write_1h is not None):
        total = (write_5m or 0) + (write_1h or 0)
    counts["cache_creation_input_tokens"] = total
    known_1h = min(write_1h or 0, total or 0)
    growth = (total or 0) - (write_5m or 0) - known_1h
    if growth > 0 and cache_ttl == "1h":
        known_1h += growth
    return TokenCounts(**counts), known_1h


def _read_passes(
    usage: UsageObject, top: TokenCounts, top_1h_tokens: int, cache_ttl: str | None
) -> tuple[Pass, ...]:
    """Return the passes that have a count; others could not be billed.

    Each becomes some rows, so a list longer than ``MAX_PASSES`` is ignored."""
    passes = [
        _read_pass(each, top, top_1h_tokens, cache_ttl) for each in usage.list_passes(MAX_PASSES)
    ]
    return tuple(each for each in passes if each.tokens.are_known)


def _read_pass(
    item: UsageObject, top: TokenCounts, top_1h_tokens: int, cache_ttl: str | None
) -> Pass:
    tokens, cache_write_1h_tokens = read_tokens(item, cache_ttl)
    writes, top_writes = tokens.cache_creation_input_tokens, top.cache_creation_input_tokens
    if writes and top_writes and not item.has_split_writes:
        # The pass does not tell; the call as a whole does, and all passes are of one request.
        cache_write_1h_tokens = (2 * writes * top_1h_tokens + top_writes) // (2 * top_writes)
    return Pass(
        type=item.text("type"),
        model=item.text("model"),
        tokens=tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
        speed=item.text("speed"),
    )


def _is_sum(tokens: TokenCounts, usage: UsageObject, body: bytes) -> bool:
    """Return whether counts are known to be of several passes, as after tools that upstream runs.

    Only large prompts are checked: a smaller one has the same price alone and as a part of a sum."""
    if (tokens.prompt or 0) <= LARGE_PROMPT_TOKENS:
        return False
    return usage.has_server_runs or any(tool in body for tool in _SERVER_TOOLS)
