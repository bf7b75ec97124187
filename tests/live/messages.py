"""Answers as the Messages API gives them: one `Answer`, as a message and as a stream of events.

They have what real answers have and the plain ones of `tests.upstream` leave out: several blocks,
tool calls whose input comes in parts, thinking with its signature, pings, cache counts, ids and rate
limit headers. They also know what an entry must say about them.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.upstream import (
    SSE_HEADERS,
    Gate,
    Headers,
    Script,
    answer,
    chunked,
    error_json,
    event,
    sse,
)

type Block = dict[str, Any]

MODEL = "claude-opus-5-5"
_LIST_PRICES = {"input": 4.0, "output": 20.0, "read": 0.2, "write_5m": 5.0, "write_1h": 8.0}
"""The prices of MODEL, in dollars per million tokens."""

REQUEST_ID = "req_011CTaximeter00000000001"
API_HEADERS: Headers = (
    ("request-id", REQUEST_ID),
    ("anthropic-organization-id", "0f3f6d8e-0000-4000-8000-000000000000"),
    ("anthropic-ratelimit-requests-limit", "4000"),
    ("anthropic-ratelimit-requests-remaining", "3999"),
    ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:00Z"),
)
_JSON: Headers = (("content-type", "application/json"),)
_GZIP: Headers = (("content-encoding", "gzip"),)
_DELTA_SIZE = 7


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinking(thoughts: str, signature: str) -> Block:
    return {"type": "thinking", "thinking": thoughts, "signature": signature}


def tool_use(name: str, arguments: dict[str, Any], *, block_id: str = "toolu_01Meter") -> Block:
    return {"type": "tool_use", "id": block_id, "name": name, "input": arguments}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Token counts of an answer. All kinds differ, so that none can pass for another."""

    input: int = 1204
    output: int = 153
    read: int = 20480
    write_5m: int = 311
    write_1h: int = 97

    def usage(self, output: int) -> dict[str, Any]:
        return {
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.write_5m + self.write_1h,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.write_5m,
                "ephemeral_1h_input_tokens": self.write_1h,
            },
            "output_tokens": output,
            "service_tier": "standard",
        }

    @property
    def columns(self) -> dict[str, int]:
        """The columns of an entry that say it."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_creation_input_tokens": self.write_5m + self.write_1h,
            "cache_read_input_tokens": self.read,
        }

    @property
    def cost_cents(self) -> float:
        dollars: float = sum(getattr(self, kind) * rate for kind, rate in _LIST_PRICES.items())
        return dollars * 100 / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the model."""

    content: Sequence[Block]
    counts: Counts = Counts()
    message_id: str = "msg_01Taximeter"
    model: str = MODEL
    passes: Sequence[dict[str, Any]] = ()

    @property
    def stop_reason(self) -> str:
        is_call = any(block["type"] == "tool_use" for block in self.content)
        return "tool_use" if is_call else "end_turn"

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block["type"] == "text")

    def message(self) -> dict[str, Any]:
        """It as one JSON document."""
        return self._frame() | {
            "content": list(self.content),
            "stop_reason": self.stop_reason,
            "usage": self.counts.usage(self.counts.output) | self._passes(),
        }

    def events(self) -> list[bytes]:
        """It as the events of a stream."""
        start = self._frame() | {"usage": self.counts.usage(output=3)}
        blocks = [
            piece
            for index, block in enumerate(self.content)
            for piece in (*_block_events(index, block), event("ping"))
        ]
        delta = {"stop_reason": self.stop_reason, "stop_sequence": None}
        usage = self.counts.columns | self._passes()
        return [
            event("message_start", message=start),
            event("ping"),
            *blocks,
            event("message_delta", delta=delta, usage=usage),
            event("message_stop"),
        ]

    def script(self, *, streamed: bool, compressed: bool = False) -> Script:
        """Return the script that answers a client that asked for a stream, or did not."""
        if not compressed:
            if streamed:
                return stream_of(self.events())
            return answer(200, json.dumps(self.message()).encode(), [*_JSON, *API_HEADERS])
        plain = b"".join(self.events()) if streamed else json.dumps(self.message()).encode()
        packed = gzip.compress(plain)
        middle = len(packed) // 2
        headers = SSE_HEADERS if streamed else _JSON
        return chunked(200, [packed[:middle], packed[middle:]], [*headers, *API_HEADERS, *_GZIP])

    def held_after_text(self, gate: Gate, before_end: Gate | None = None) -> Script:
        """Return it as a stream that stands still after its first piece of text, and before its last event
        when a gate for that is given."""
        *events, end = self.events()
        first = next(number for number, piece in enumerate(events) if b'"text_delta"' in piece)
        pieces: list[bytes | Gate] = [*events[: first + 1], gate, *events[first + 1 :]]
        return stream_of([*pieces, end] if before_end is None else [*pieces, before_end, end])

    def _passes(self) -> dict[str, Any]:
        return {"iterations": list(self.passes)} if self.passes else {}

    def _frame(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
        }


def stream_of(pieces: Sequence[bytes | Gate]) -> Script:
    return sse(pieces, [*SSE_HEADERS, *API_HEADERS])


def error(status: int, kind: str, headers: Headers = ()) -> Script:
    """An answer that is an error of this type."""
    return answer(status, error_json(kind, f"because of {kind}"), [*_JSON, *API_HEADERS, *headers])


def token_count(tokens: int) -> Script:
    """The answer of count_tokens."""
    return answer(200, json.dumps({"input_tokens": tokens}).encode(), [*_JSON, *API_HEADERS])


def _block_events(index: int, block: Block) -> Iterator[bytes]:
    match block["type"]:
        case "text":
            empty = block | {"text": ""}
            deltas = [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
        case "thinking":
            empty = block | {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": part} for part in _parts(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case _:
            empty = block | {"input": {}}
            deltas = [
                {"type": "input_json_delta", "partial_json": part}
                for part in ("", *_parts(json.dumps(block["input"], ensure_ascii=False)))
            ]
    yield event("content_block_start", index=index, content_block=empty)
    yield from (event("content_block_delta", index=index, delta=delta) for delta in deltas)
    yield event("content_block_stop", index=index)


def _parts(whole: str) -> Iterator[str]:
    return (whole[start : start + _DELTA_SIZE] for start in range(0, len(whole), _DELTA_SIZE))
