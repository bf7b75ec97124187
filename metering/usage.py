"""The usage that a response reports, with its model, stop reason and error.

The response is a JSON document or an event stream; either may carry an error. In a stream the counts
come twice, first as an estimate in ``message_start`` and then, cumulative, in one or more
``message_delta``: a value in a delta replaces the one before, 0 included; a missing or null value
changes nothing. Nothing is added up, so repeated events do no harm.

A value that cannot be a count (negative, a string, a fraction, a boolean, absurdly large) is treated
as missing: no count is better than a wrong one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from metering import token_counts
from metering.entry import UsageSource
from metering.json_reading import parse_object
from metering.sse import BYTE_ORDER_MARK, looks_like_sse, parse_events
from metering.token_counts import UNKNOWN, TokenCounts

MAX_TEXT_CHARS = 200
MAX_COUNT = 10**12  # a million of the largest prompts; sums over many rows still fit SQLite
MAX_PASSES = 1_000
NESTED_COUNTS = {
    "cache_creation": ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"),
    "server_tool_use": ("web_search_requests",),
}
OTHER_KEYS = ("iterations", "service_tier", "speed", "inference_geo")
# Blocks without one of these hold nothing that is read here. Every kind of event that matters has
# one in its type; a fallback is announced as a content block that names the model taking over.
MARKERS = (b"message_", b"error", b"fallback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One run of a model within the call. ``model`` is None where it is that of the call.

    ``cache_write_1h_tokens`` are those of the cache writes that are kept for an hour; the others
    are kept for five minutes."""

    type: str | None
    model: str | None
    tokens: TokenCounts
    cache_write_1h_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The usage of a response. ``tokens`` are the top-level counts. ``has_error`` may be true
    without an ``error_type``."""

    streamed: bool
    source: UsageSource = "none"
    model: str | None = None
    tokens: TokenCounts = UNKNOWN
    cache_write_1h_tokens: int = 0
    web_search_requests: int | None = None
    passes: tuple[Pass, ...] = ()
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    stop_reason: str | None = None
    has_message_stop: bool = False
    has_error: bool = False
    error_type: str | None = None


def read_usage(
    status: int | None, content_type: str | None, body: bytes, *, is_complete: bool
) -> Usage:
    """Read a decoded body, whole or cut. ``is_complete`` says that upstream ended it and that all
    of it is here. Never raises."""
    streamed = _is_sse(content_type, body)
    # The header decides the kind of the response, the bytes how it is read: gateways send JSON
    # errors as text/event-stream.
    if body.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        reading = _read_json(status, body)
    else:
        reading = _read_stream(body)
    return reading.finish(streamed=streamed, is_complete=is_complete)


def clean_text(value: object, max_chars: int = MAX_TEXT_CHARS) -> str | None:
    """Return a short text that SQLite can store, or None for what is not text or is empty.

    It may come from anywhere, so its length is bounded; NUL and lone surrogates are replaced."""
    if not isinstance(value, str) or not value:
        return None
    text = value[:max_chars].replace("\0", "\ufffd")
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


@dataclass(slots=True, kw_only=True)
class _Reading:
    """The state of reading a response; ``start`` and ``delta`` are usage objects without nulls."""

    start: dict[str, object] = field(default_factory=dict)
    delta: dict[str, object] = field(default_factory=dict)
    is_document: bool = False
    model: str | None = None
    stop_reason: str | None = None
    has_message_stop: bool = False
    has_error: bool = False
    error_type: str | None = None

    def finish(self, *, streamed: bool, is_complete: bool) -> Usage:
        raw = _merge(self.start, self.delta)
        tokens, cache_write_1h_tokens = _read_tokens(raw)
        source: UsageSource = "none"
        if tokens.are_known:
            source = "final" if self._is_final(is_complete) else "partial"
        return Usage(
            streamed=streamed,
            source=source,
            model=self.model,
            tokens=tokens,
            cache_write_1h_tokens=cache_write_1h_tokens,
            web_search_requests=_as_count(
                _object(raw.get("server_tool_use")).get("web_search_requests")
            ),
            passes=_read_passes(raw.get("iterations")),
            service_tier=clean_text(raw.get("service_tier")),
            speed=clean_text(raw.get("speed")),
            inference_geo=clean_text(raw.get("inference_geo")),
            stop_reason=self.stop_reason,
            has_message_stop=self.has_message_stop,
            has_error=self.has_error,
            error_type=self.error_type,
        )

    def _is_final(self, is_complete: bool) -> bool:
        """Return whether the usage is final.

        A stop reason is as good as message_stop, unless a later delta may have been cut off."""
        if self.is_document or self.has_message_stop:
            return True
        return is_complete and self.stop_reason is not None

    def read_error(self, document: Mapping[str, object]) -> None:
        self.has_error = True
        self.error_type = clean_text(_object(document.get("error")).get("type")) or self.error_type

    def read_event(self, kind: str, document: Mapping[str, object]) -> None:
        match kind:
            case "message_start":
                message = _object(document.get("message"))
                self.model = clean_text(message.get("model")) or self.model
                self.start = _merge(self.start, _object(message.get("usage")))
            case "message_delta":
                reason = clean_text(_object(document.get("delta")).get("stop_reason"))
                self.stop_reason = reason or self.stop_reason
                self.delta = _merge(self.delta, _object(document.get("usage")))
            case "content_block_start":
                block = _object(document.get("content_block"))
                if block.get("type") == "fallback":
                    self.model = clean_text(_object(block.get("to")).get("model")) or self.model
            case "message_stop":
                self.has_message_stop = True
            case "error":
                self.read_error(document)


def _read_json(status: int | None, body: bytes) -> _Reading:
    reading = _Reading()
    document = parse_object(body)
    if document is None:
        return reading
    reading.is_document = True
    if document.get("type") == "error" or (status is not None and status >= 400):
        reading.read_error(document)
    reading.model = clean_text(document.get("model"))
    reading.stop_reason = clean_text(document.get("stop_reason"))
    reading.start = _merge({}, _object(document.get("usage")))
    return reading


def _read_stream(body: bytes) -> _Reading:
    reading = _Reading()
    for event in parse_events(body, MARKERS):
        document = parse_object(event.data)
        if document is not None:
            kind = document.get("type")
            reading.read_event(kind if isinstance(kind, str) else event.name, document)
        elif event.name == "error":
            reading.read_error({})
    return reading


def _is_sse(content_type: str | None, body: bytes) -> bool:
    media_type = (content_type or "").partition(";")[0].strip().lower()
    return media_type == "text/event-stream" if media_type else looks_like_sse(body)


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _merge(base: dict[str, object], update: Mapping[str, object]) -> dict[str, object]:
    """Return a usage object with the values of a later one in place of its own.

    Values that are null, or no count in the place of one, are ignored, so that they cannot replace a
    count. Fields that are not read here are dropped: this runs for each event, and its time must not
    grow with the number of events."""
    merged = dict(base) | _only_counts(update, token_counts.NAMES)
    for key, names in NESTED_COUNTS.items():
        merged[key] = _object(merged.get(key)) | _only_counts(_object(update.get(key)), names)
    return merged | {key: update[key] for key in OTHER_KEYS if update.get(key) is not None}


def _only_counts(raw: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: raw[name] for name in names if _as_count(raw.get(name)) is not None}


def _as_count(value: object) -> int | None:
    # type(), because a bool is an int too
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def _read_tokens(raw: Mapping[str, object]) -> tuple[TokenCounts, int]:
    """Return the counts, and how many of the cache writes are kept for an hour.

    The total of the cache writes rules its split, which upstream may send earlier than the total.
    """
    counts = {name: _as_count(raw.get(name)) for name in token_counts.NAMES}
    split = _object(raw.get("cache_creation"))
    write_5m = _as_count(split.get("ephemeral_5m_input_tokens"))
    write_1h = _as_count(split.get("ephemeral_1h_input_tokens"))
    total = counts["cache_creation_input_tokens"]
    if total is None and (write_5m is not None or write_1h is not None):
        total = (write_5m or 0) + (write_1h or 0)
    counts["cache_creation_input_tokens"] = total
    return TokenCounts(**counts), min(write_1h or 0, total or 0)


def _read_passes(raw: object) -> tuple[Pass, ...]:
    """Return those that carry any count; what is none of that is not a pass that could be billed.

    Each becomes some rows. A list of more than any call has is treated as if it were not there."""
    if not isinstance(raw, list) or len(raw) > MAX_PASSES:
        return ()
    items = [item for item in raw if isinstance(item, dict)]
    passes = map(_read_pass, items)
    return tuple(each for each in passes if each.tokens.are_known)


def _read_pass(item: Mapping[str, object]) -> Pass:
    tokens, cache_write_1h_tokens = _read_tokens(item)
    return Pass(
        type=clean_text(item.get("type")),
        model=clean_text(item.get("model")),
        tokens=tokens,
        cache_write_1h_tokens=cache_write_1h_tokens,
    )
