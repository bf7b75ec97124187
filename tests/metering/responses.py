"""Responses as upstream sends them, each as a document and as a stream with the same content."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from metering.billed_passes import Call, make_call
from metering.usage import Usage, read_usage

type Kind = Literal["document", "stream"]
KINDS: tuple[Kind, ...] = ("document", "stream")
TYPES = {"document": "application/json", "stream": "text/event-stream"}
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def event(type: str, **fields: object) -> bytes:
    """One event of a stream."""
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()


def text_block(text: str = "Yes.") -> dict[str, Any]:
    return {"type": "text", "text": text}


def fallback_block(source: str, target: str, category: str | None = None) -> dict[str, Any]:
    return {
        "type": "fallback",
        "from": {"model": source},
        "to": {"model": target},
        "trigger": {"type": "refusal", "category": category},
    }


def make_body(
    kind: Kind,
    content: Sequence[dict[str, Any]],
    usage: dict[str, Any],
    *,
    model: str = "claude-fable-5",
    stop_reason: str = "end_turn",
    category: str | None = None,
) -> bytes:
    details = {"type": "refusal", "category": category} if stop_reason == "refusal" else None
    stop = {"stop_reason": stop_reason, "stop_details": details}
    if kind == "document":
        message = {"type": "message", "model": model, "content": content, "usage": usage}
        return json.dumps(message | stop).encode()
    started = {**usage, "output_tokens": 1}
    started.pop("iterations", None)
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": model, "content": [], "usage": started}}
    ]
    for index, block in enumerate(content):
        events += _stream_block(index, block)
    events.append({"type": "message_delta", "delta": stop, "usage": usage})
    events.append({"type": "message_stop"})
    return b"".join(event(**fields) for fields in events)


def _stream_block(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    begun, deltas = block, []
    if block["type"] == "text":
        begun = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": part} for part in block["text"].split(" ")]
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def read(kind: Kind, body: bytes, *, status: int = 200, cache_ttl: str | None = None) -> Usage:
    return read_usage(status, TYPES[kind], body, is_complete=True, cache_ttl=cache_ttl)


def make_call_of(usage: Usage, at: datetime = NOW, *, status: int = 200) -> Call:
    outcome = "complete" if status < 400 else "upstream_error"
    return make_call(usage, created_at=at, outcome=outcome, status_code=status)  # type: ignore[arg-type]  # one of two names
