"""The usage of a chat completion: upstream's interface for programs that are written for OpenAI's.

    {"id": "…", "model": "…", "choices": […], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}

A stream is of such objects with parts of the reply, and ends with ``[DONE]``. Its counts come in the last one
before that, and only if the request says ``stream_options: {include_usage: true}``; otherwise nothing tells
what the call has used. Nothing is cached, so each count has one class of tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from metering.token_counts import UNKNOWN, TokenCounts
from metering.usage import Usage, is_sse
from wire.envelope import Envelope
from wire.json_reading import as_count, as_object, as_objects, clean_text, parse_object
from wire.sse import BYTE_ORDER_MARK, parse_events

_END = b"[DONE]"
# The other parts of a stream have the text alone.
_MARKERS = (
    b'"role"',
    b'"prompt_tokens"',
    b'"finish_reason":"',
    b'"finish_reason": "',
    b"error",
    _END,
)


def read_chat_usage(
    status: int | None, content_type: str | None, body: bytes, *, is_complete: bool
) -> Usage:
    """Read a decoded body, whole or cut. The arguments are those of ``read_usage``. Never raises."""
    reading = _Reading()
    is_document = body.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{")
    if is_document:
        reading.read(parse_object(body), is_failed=status is not None and status >= 400)
    else:
        for event in parse_events(body, _MARKERS):
            reading.has_end = reading.has_end or event.data == _END
            reading.read(parse_object(event.data), is_failed=event.name == "error")
    is_final = is_document or reading.has_end or is_complete
    return Usage(
        streamed=is_sse(content_type, body),
        is_document=is_document and bool(reading.message),
        source="none" if not reading.tokens.are_known else "final" if is_final else "partial",
        model=reading.model,
        tokens=reading.tokens,
        stop_reason=reading.stop_reason,
        has_message_stop=reading.has_end,
        has_error=reading.has_error,
        error_type=reading.error_type,
        envelope=Envelope(message=reading.message),
    )


@dataclass(slots=True)
class _Reading:
    """The state of reading a response."""

    message: Mapping[str, object] = field(default_factory=dict)
    model: str | None = None
    tokens: TokenCounts = UNKNOWN
    stop_reason: str | None = None
    has_end: bool = False
    has_error: bool = False
    error_type: str | None = None

    def read(self, document: Mapping[str, object] | None, *, is_failed: bool) -> None:
        """Read the whole of a response, or a part of a stream."""
        if document is None:
            return
        if is_failed or "error" in document:
            self.has_error = True
            error = as_object(document.get("error"))
            self.error_type = clean_text(error.get("type")) or self.error_type
            return
        self.message = self.message or document
        self.model = clean_text(document.get("model")) or self.model
        for choice in as_objects(document.get("choices")):
            self.stop_reason = clean_text(choice.get("finish_reason")) or self.stop_reason
        usage = as_object(document.get("usage"))
        if usage:
            self.tokens = TokenCounts(
                input_tokens=as_count(usage.get("prompt_tokens")),
                output_tokens=as_count(usage.get("completion_tokens")),
            )
