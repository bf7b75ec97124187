"""Reading what a response says about the cache.

That is upstream's diagnosis of a miss, the identity of the message, and whether upstream has shortened
the history.

A client asks for the diagnosis by naming the message before; upstream compares the structure of both
requests and names the first difference. That does not prove a miss, so it explains a break and never
makes one.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from metering.json_reading import as_list, as_object, parse_object
from metering.sse import BYTE_ORDER_MARK, parse_events
from metering.usage import MAX_COUNT, clean_text

type UpstreamCause = Literal["model", "system", "tools", "messages"]

_CAUSES: Mapping[str, UpstreamCause] = {
    "model_changed": "model",
    "system_changed": "system",
    "tools_changed": "tools",
    "messages_changed": "messages",
}
_EDITS = b'"applied_edits"'
_FIRST_BYTES = 4_096
_MARKERS = (b'"message_start"', _EDITS)


class CacheReport(NamedTuple):
    """The facts of a response about the cache. ``reason`` is upstream's word for the cause of a miss and
    ``cause`` ours, None where it names none; ``missed_tokens`` is its estimate."""

    message_id: str | None = None
    reason: str | None = None
    cause: UpstreamCause | None = None
    missed_tokens: int | None = None
    has_edits: bool = False


NO_REPORT = CacheReport()


def read_cache_report(body: bytes) -> CacheReport:
    """Return what a decoded response body, a document or a stream, says about the cache. Never raises."""
    if body.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"{"):
        return _read_message(parse_object(body) or {})
    if _EDITS not in body and (message := _find_start(body)) is not None:
        return _read_message(message)
    report = CacheReport()
    for event in parse_events(body, _MARKERS):
        document = parse_object(event.data) or {}
        if document.get("type") == "message_start":
            report = _read_message(as_object(document.get("message")))
        elif _has_edits(document):
            report = report._replace(has_edits=True)
    return report


def read_previous_message_id(request: Mapping[str, object]) -> str | None:
    """Return the message that a request names as the one before, or None."""
    return clean_text(as_object(request.get("diagnostics")).get("previous_message_id"))


def _read_message(message: Mapping[str, object]) -> CacheReport:
    reason = as_object(as_object(message.get("diagnostics")).get("cache_miss_reason"))
    kind = clean_text(reason.get("type"))
    missed = reason.get("cache_missed_input_tokens")
    return CacheReport(
        message_id=clean_text(message.get("id")),
        reason=kind,
        cause=_CAUSES.get(kind or ""),
        missed_tokens=missed if type(missed) is int and 0 <= missed <= MAX_COUNT else None,
        has_edits=_has_edits(message),
    )


def _find_start(body: bytes) -> dict[str, object] | None:
    """Return the message of the first event, where that is on one line as usual, else None."""
    line = body[:_FIRST_BYTES].partition(b"\ndata: ")[2].partition(b"\n")
    if not line[1]:
        return None
    document = parse_object(line[0]) or {}
    return as_object(document.get("message")) if document.get("type") == "message_start" else None


def _has_edits(document: Mapping[str, object]) -> bool:
    return bool(as_list(as_object(document.get("context_management")).get("applied_edits")))
