"""The usage that a response reports, with its model, stop reason and error.

The response is a JSON document or an event stream; either may carry an error. In a stream the counts
come twice, first as an estimate in ``message_start`` and then, cumulative, in one or more
``message_delta``: a value in a delta replaces the one before, 0 included; a missing or null value
changes nothing. Nothing is added up, so repeated events do no harm. The list of passes is older than
the counts when an event changed these and brought no list.

Cache writes are kept for five minutes or for an hour. Upstream tells how many of which, though perhaps
of fewer than there are in the end: what is told stays, the rest was written as the request asks for.

A value that cannot be a count (negative, a string, a fraction, a boolean, absurdly large) is treated
as missing: no count is better than a wrong one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from metering import output, refusals, token_counts
from metering.entry import CostNote, UsageSource
from metering.token_counts import UNKNOWN, TokenCounts
from wire.json_reading import as_list, as_object, parse_object
from wire.sse import BYTE_ORDER_MARK, looks_like_sse, parse_events

MAX_TEXT_CHARS = 200
MAX_COUNT = 10**12  # a million of the largest prompts; sums over many rows still fit SQLite
MAX_PASSES = 1_000
MAX_HOPS = 16  # upstream takes three fallbacks
LARGE_PROMPT_TOKENS = 100_000  # no price changes with the size of a smaller prompt
NESTED_COUNTS = {
    "cache_creation": ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"),
    "server_tool_use": ("web_search_requests", "web_fetch_requests"),
    "output_tokens_details": ("thinking_tokens",),
}
OTHER_KEYS = ("iterations", "service_tier", "speed", "inference_geo")
# Blocks without one of these hold nothing that is read here. Every kind of event that matters has
# one in its type; a fallback is announced as a content block that names the model taking over.
MARKERS = (b"message_", b"error", b"fallback")
NO_MESSAGE: Mapping[str, object] = MappingProxyType({})
# A key of our own in a usage object that was merged; no JSON of upstream has it.
_PASSES_ARE_STALE = "(the iterations are older than the counts)"
_SERVER_TOOLS = tuple(
    b'"type":%s"%s_tool_use"' % (space, kind)
    for kind in (b"server", b"mcp")
    for space in (b"", b" ")
)


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Pass:
    """One run of a model within the call. ``model`` is None where it is that of the call, ``speed``
    where upstream does not name one for the pass.

    ``cache_write_1h_tokens`` are those of the cache writes that are kept for an hour; the others
    are kept for five minutes. ``estimates_prompt`` and ``estimates_output``: upstream has not counted
    these tokens. ``note`` says what makes the output less certain."""

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
    """A model that declined, and the model that it handed over to. ``has_output``: some content came
    from it before."""

    from_model: str | None
    to_model: str | None
    category: str | None
    has_output: bool


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class Usage:
    """The usage of a response. ``tokens`` are the top-level counts. ``has_error`` may be true
    without an ``error_type``.

    ``passes_are_stale``: the counts changed after the passes were listed. ``is_sum``: the counts are
    known to be of several passes, which are not listed. ``hops`` are the models that declined, in
    order. ``is_empty``: nothing came from the model that spoke last; it is looked for after a refusal,
    a fallback or an error status, and False otherwise. ``message`` is the document, or the message that
    a stream begins with; ``has_edits``: upstream has shortened the history in the course of a stream."""

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
    has_message_stop: bool = False
    has_error: bool = False
    error_type: str | None = None
    message: Mapping[str, object] = field(default=NO_MESSAGE, compare=False, repr=False)
    has_edits: bool = field(default=False, compare=False)


def read_usage(
    status: int | None,
    content_type: str | None,
    body: bytes,
    *,
    is_complete: bool,
    cache_ttl: str | None = None,
) -> Usage:
    """Read a decoded body, whole or cut. ``is_complete`` says that upstream ended it and that all
    of it is here. ``cache_ttl`` is how long the request asks its cache writes to be kept; it decides
    where upstream does not tell. Never raises."""
    streamed = _is_sse(content_type, body)
    # The header decides the kind of the response, the bytes how it is read: gateways send JSON
    # errors as text/event-stream.
    is_failed = status is not None and status >= 400
    if body.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        reading = _read_json(body, is_failed=is_failed)
    else:
        reading = _read_stream(body, is_failed=is_failed)
    return reading.finish(body, streamed=streamed, is_complete=is_complete, cache_ttl=cache_ttl)


def clean_text(value: object, max_chars: int = MAX_TEXT_CHARS) -> str | None:
    """Return a short text that SQLite can store, or None for what is not text or is empty.

    It may come from anywhere, so its length is bounded; NUL and lone surrogates are replaced."""
    if not isinstance(value, str) or not value:
        return None
    if len(value) <= max_chars and value.isascii() and "\0" not in value:  # as nearly all are
        return value
    text = value[:max_chars].replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def has_edits(document: Mapping[str, object]) -> bool:
    """Return whether a message, or an event of a stream, says that upstream has shortened the history."""
    return bool(as_list(as_object(document.get("context_management")).get("applied_edits")))


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The state of reading a response; ``start`` and ``delta`` are usage objects without nulls.
    ``outputs`` says of each part of the content whether it carries any, where that was looked at."""

    start: dict[str, object] = field(default_factory=dict)
    delta: dict[str, object] = field(default_factory=dict)
    is_document: bool = False
    model: str | None = None
    stop_reason: str | None = None
    container_id: str | None = None
    refusal_category: str | None = None
    has_message_stop: bool = False
    has_error: bool = False
    error_type: str | None = None
    message: Mapping[str, object] = NO_MESSAGE
    has_edits: bool = False
    fallbacks: list[Mapping[str, object]] = field(default_factory=list)
    outputs: list[bool] = field(default_factory=list)

    def finish(
        self, body: bytes, *, streamed: bool, is_complete: bool, cache_ttl: str | None
    ) -> Usage:
        raw = _merge(self.start, self.delta) if self.delta else self.start
        tokens, cache_write_1h_tokens = _read_tokens(raw, cache_ttl)
        source: UsageSource = "none"
        if tokens.are_known:
            source = "final" if self._is_final(is_complete) else "partial"
        server_tool_use = as_object(raw.get("server_tool_use"))
        passes = _read_passes(raw.get("iterations"), tokens, cache_write_1h_tokens, cache_ttl)
        return Usage(
            streamed=streamed,
            is_document=self.is_document,
            source=source,
            model=self.model,
            tokens=tokens,
            cache_write_1h_tokens=cache_write_1h_tokens,
            web_search_requests=_as_count(server_tool_use.get("web_search_requests")),
            thinking_tokens=_as_count(
                as_object(raw.get("output_tokens_details")).get("thinking_tokens")
            ),
            passes=passes,
            passes_are_stale=bool(passes) and raw.get(_PASSES_ARE_STALE) is True,
            is_sum=not passes and _is_sum(tokens, server_tool_use, body),
            hops=tuple(map(self._read_hop, self.fallbacks, self.outputs)),
            is_empty=bool(self.outputs) and not self.outputs[-1],
            refusal_category=self.refusal_category,
            service_tier=clean_text(raw.get("service_tier")),
            speed=clean_text(raw.get("speed")),
            inference_geo=clean_text(raw.get("inference_geo")),
            stop_reason=self.stop_reason,
            container_id=self.container_id,
            has_message_stop=self.has_message_stop,
            has_error=self.has_error,
            error_type=self.error_type,
            message=self.message,
            has_edits=self.has_edits,
        )

    @property
    def parts(self) -> int:
        """Return how many models the content is of."""
        return len(self.fallbacks) + 1

    def needs_content(self, *, is_failed: bool) -> bool:
        """Return whether it matters to the bill if the content carries any output."""
        return is_failed or bool(self.fallbacks) or self.stop_reason == refusals.STOP_REASON

    def _is_final(self, is_complete: bool) -> bool:
        """Return whether the usage is final.

        A stop reason is as good as message_stop, unless a later delta may have been cut off."""
        if self.is_document or self.has_message_stop:
            return True
        return is_complete and self.stop_reason is not None

    def _read_hop(self, block: Mapping[str, object], has_output: bool) -> Hop:
        return Hop(
            from_model=_read_model(block.get("from")),
            to_model=_read_model(block.get("to")),
            category=clean_text(as_object(block.get("trigger")).get("category")),
            has_output=has_output,
        )

    def read_error(self, document: Mapping[str, object]) -> None:
        self.has_error = True
        error = as_object(document.get("error"))
        self.error_type = clean_text(error.get("type")) or self.error_type

    def read_stop(self, message: Mapping[str, object]) -> None:
        self.stop_reason = clean_text(message.get("stop_reason")) or self.stop_reason
        container = as_object(message.get("container"))
        self.container_id = clean_text(container.get("id")) or self.container_id
        if self.stop_reason == refusals.STOP_REASON:
            details = as_object(message.get("stop_details"))
            self.refusal_category = clean_text(details.get("category")) or self.refusal_category

    def read_fallback(self, block: Mapping[str, object]) -> None:
        if len(self.fallbacks) < MAX_HOPS:
            self.fallbacks.append(block)

    def read_event(self, kind: str, document: Mapping[str, object]) -> None:
        match kind:
            case "message_start":
                message = as_object(document.get("message"))
                self.message = message
                self.model = clean_text(message.get("model")) or self.model
                self.start = _merge(self.start, as_object(message.get("usage")))
            case "message_delta":
                self.read_stop(as_object(document.get("delta")))
                self.delta = _merge(self.delta, as_object(document.get("usage")))
                self.has_edits = self.has_edits or has_edits(document)
            case "content_block_start":
                block = as_object(document.get("content_block"))
                if output.is_fallback(block):
                    self.model = _read_model(block.get("to")) or self.model
                    self.read_fallback(block)
            case "message_stop":
                self.has_message_stop = True
            case "error":
                self.read_error(document)


def _read_json(body: bytes, *, is_failed: bool) -> _Reading:
    reading = _Reading()
    document = parse_object(body)
    if document is None:
        return reading
    reading.is_document, reading.message = True, document
    if document.get("type") == "error" or is_failed:
        reading.read_error(document)
    reading.model = clean_text(document.get("model"))
    reading.read_stop(document)
    reading.start = _merge({}, as_object(document.get("usage")))
    content = document.get("content")
    for block in output.find_fallbacks(content):
        reading.read_fallback(block)
    if reading.needs_content(is_failed=is_failed):
        reading.outputs = output.find_outputs_in_document(content)
    return reading


def _read_stream(body: bytes, *, is_failed: bool) -> _Reading:
    reading = _Reading()
    for event in parse_events(body, MARKERS):
        document = parse_object(event.data)
        if document is not None:
            kind = document.get("type")
            reading.read_event(kind if isinstance(kind, str) else event.name, document)
        elif event.name == "error":
            reading.read_error({})
    if reading.needs_content(is_failed=is_failed):
        reading.outputs = output.find_outputs_in_stream(body, reading.parts)
    return reading


def _is_sse(content_type: str | None, body: bytes) -> bool:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    return media_type == "text/event-stream" if media_type else looks_like_sse(body)


def _read_model(info: object) -> str | None:
    return clean_text(as_object(info).get("model"))


def _merge(base: dict[str, object], update: Mapping[str, object]) -> dict[str, object]:
    """Return a usage object with the values of a later one in place of its own.

    Values that are null, or no count in the place of one, are ignored, so that they cannot replace a
    count. Fields that are not read here are dropped: this runs for each event, and its time must not
    grow with the number of events."""
    counts = _only_counts(update, token_counts.NAMES)
    merged = base | counts
    for key, names in NESTED_COUNTS.items():
        nested = update.get(key)
        if isinstance(nested, dict):
            merged[key] = as_object(base.get(key)) | _only_counts(nested, names)
    for key in OTHER_KEYS:
        value = update.get(key)
        if value is not None:
            merged[key] = value
    if update.get("iterations") is not None:
        merged[_PASSES_ARE_STALE] = update.get(_PASSES_ARE_STALE)
    elif not counts.items() <= base.items():
        merged[_PASSES_ARE_STALE] = True
    return merged


def _only_counts(raw: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: count for name in names if (count := _as_count(raw.get(name))) is not None}


def _as_count(value: object) -> int | None:
    # type(), because a bool is an int too
    if type(value) is int:
        return value if 0 <= value <= MAX_COUNT else None
    if type(value) is float and value.is_integer():  # as some gateways write counts
        return _as_count(int(value))
    return None


def _read_tokens(raw: Mapping[str, object], cache_ttl: str | None) -> tuple[TokenCounts, int]:
    """Return the counts, and how many of the cache writes are kept for an hour.

    The total of the cache writes rules its split, which upstream may send earlier than the total.
    """
    counts = {name: _as_count(raw.get(name)) for name in token_counts.NAMES}
    split = as_object(raw.get("cache_creation"))
    write_5m = _as_count(split.get("ephemeral_5m_input_tokens"))
    write_1h = _as_count(split.get("ephemeral_1h_input_tokens"))
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
    raw: object, top: TokenCounts, top_1h_tokens: int, cache_ttl: str | None
) -> tuple[Pass, ...]:
    """Return those that carry any count; what is none of that is not a pass that could be billed.

    Each becomes some rows. A list of more than any call has is treated as if it were not there."""
    if not isinstance(raw, list) or len(raw) > MAX_PASSES:
        return ()
    items = [item for item in raw if isinstance(item, dict)]
    passes = [_read_pass(item, top, top_1h_tokens, cache_ttl) for item in items]
    return tuple(each for each in passes if each.tokens.are_known)


def _read_pass(
    item: Mapping[str, object], top: TokenCounts, top_1h_tokens: int, cache_ttl: str | None
) -> Pass:
    tokens, cache_write_1h_tokens = _read_tokens(item, cache_ttl)
    writes, top_writes = tokens.cache_creation_input_tokens, top.cache_creation_input_tokens
    if writes and top_writes and not as_object(item.get("cache_creation")):
        # The pass does not tell; the call as a whole does, and all passes are of one request.
        cache_write_1h_tokens = (2 * writes * top_1h_tokens + top_writes) // (2 * top_writes)
    return Pass(
        type=clean_text(item.get("type")),
        model=clean_text(item.get("model")),
        tokens=tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
        speed=clean_text(item.get("speed")),
    )


def _is_sum(tokens: TokenCounts, server_tool_use: Mapping[str, object], body: bytes) -> bool:
    """Return whether counts are known to be of several passes, as after each tool that runs upstream.

    Asked only of large prompts: a smaller one has the same price alone and as a part of a sum."""
    if (tokens.prompt or 0) <= LARGE_PROMPT_TOKENS:
        return False
    return any(server_tool_use.values()) or any(tool in body for tool in _SERVER_TOOLS)
