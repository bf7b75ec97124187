"""Made-up traffic for the tests of the store: entries, and the requests of an agent at work."""

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import orjson

from metering import token_counts
from metering.components import CACHE_WRITE_1H, TOKEN_COMPONENTS
from metering.entry import CostItem, UsageLogEntry
from metering.token_counts import TokenCounts
from runtime import clock
from store.traces.calls.cache_breaks import CacheBreak

_NAMES = "return self value for if not in import path read write line test model call index"
_WORDS = [f"{name}{n}" for name in _NAMES.split() for n in range(1000)]
TOKENS = TokenCounts(
    input_tokens=10,
    output_tokens=20,
    cache_creation_input_tokens=30,
    cache_read_input_tokens=40,
)
_numbers = count(1)
_START = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


def make_entry(**changes: Any) -> UsageLogEntry:
    """Each arrives later than those made before it, within one hour. Token counts have the names of
    their columns."""
    tokens = {name: changes.pop(name) for name in token_counts.NAMES if name in changes}
    fields: dict[str, Any] = {
        "entry_id": clock.new_id(),
        "created_at": clock.format_ms(_START + timedelta(milliseconds=next(_numbers))),
        "proxy_endpoint_id": "pe_1",
        "slug": "default",
        "outcome": "complete",
        "usage_source": "final",
        "streamed": True,
        "model": "claude-sonnet-4-5",
        "tokens": replace(TOKENS, **tokens),
        "cost_cents": Decimal("1.25"),
        "duration_ms": 100.5,
        "status_code": 200,
    }
    entry = UsageLogEntry(**(fields | changes))
    return entry if "cost_items" in changes else with_items(entry)


def with_items(entry: UsageLogEntry) -> UsageLogEntry:
    """Return the entry with a line item for each class of its tokens. Output has the estimated part of
    its cost, the first item all the rest; without a cost their prices are not known."""
    counts = {
        each.name: count
        for each in TOKEN_COMPONENTS
        if each.name != CACHE_WRITE_1H and (count := getattr(entry.tokens, each.counted_in))
    }
    cents: dict[str, Decimal] = {}
    if entry.cost_cents is not None and counts:
        estimate = entry.estimated_cents or Decimal(0)
        cents = dict.fromkeys(counts, Decimal(0)) | {"output": estimate}
        cents[next(iter(counts))] += entry.cost_cents - estimate
    items = [
        make_item(
            model=entry.model,
            component=name,
            quantity=count,
            prompt_tokens=entry.tokens.prompt or 0,
            estimated=name == "output" and entry.estimated_cents is not None,
            rate_usd=cents[name] * 10_000 / count if cents else None,
            multiplier=Decimal(1) if cents else None,
            price_version="2026-01-01" if cents else None,
            cents=cents[name] if cents else None,
        )
        for name, count in counts.items()
    ]
    return replace(entry, cost_items=tuple(items))


def make_item(**changes: Any) -> CostItem:
    fields: dict[str, Any] = {
        "pass_index": 0,
        "model": "claude-sonnet-4-5",
        "component": "input",
        "quantity": 10,
        "prompt_tokens": 80,
        "rate_usd": Decimal(1000),
        "multiplier": Decimal("1.25"),
        "price_version": "2026-01-01",
        "cents": Decimal("1.25"),
    }
    return CostItem(**(fields | changes))


def make_break(**changes: Any) -> CacheBreak:
    fields: dict[str, Any] = {
        "previous_entry_id": "before",
        "method": 1,
        "prefix_tokens": 9,
        "read_tokens": 0,
        "tokens": 9,
        "gap_ms": 100,
        "extra_cost_cents": None,
        "estimated": False,
        "found_by": "chain",
        "cause": "system",
        "detail": "",
        "upstream_reason": None,
        "upstream_tokens": None,
    }
    return CacheBreak(**(fields | changes))


def agent_requests(turns: int, seed: int = 1) -> Iterator[bytes]:
    """A growing conversation: each request repeats the one before, adds an answer and a tool's
    result, and moves the cache markers to the last two user messages."""
    rng = random.Random(seed)  # noqa: S311 - the same traffic on every run
    system = [{"type": "text", "text": text(rng, 20_000), "cache_control": {"type": "ephemeral"}}]
    tools = [{"name": f"tool_{n}", "description": text(rng, 2_500)} for n in range(16)]
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages.append({"role": "user", "content": [_user_block(rng, turn)]})
        sent = list(messages)
        for place in (-1, -3):
            if len(sent) >= -place:
                sent[place] = _with_marker(sent[place])
        body = {"model": "claude-sonnet-4-5", "system": system, "tools": tools, "messages": sent}
        yield orjson.dumps(body)
        messages.append({"role": "assistant", "content": _assistant_blocks(rng, turn)})


def text(rng: random.Random, length: int) -> str:
    words = " ".join(rng.choices(_WORDS, k=length // 8))
    return f"{words} “ü”\n"


def _user_block(rng: random.Random, turn: int) -> dict[str, Any]:
    if turn % 5 == 0:
        return {"type": "text", "text": text(rng, 300)}
    result = text(rng, rng.randrange(500, 4_000))
    return {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": result}


def _assistant_blocks(rng: random.Random, turn: int) -> list[dict[str, Any]]:
    return [
        {"type": "text", "text": text(rng, 200)},
        {"type": "tool_use", "id": f"toolu_{turn + 1}", "name": "tool_1", "input": {"n": turn}},
    ]


def _with_marker(message: dict[str, Any]) -> dict[str, Any]:
    *others, last = message["content"]
    return message | {"content": [*others, last | {"cache_control": {"type": "ephemeral"}}]}


def png(width: int, height: int) -> bytes:
    """Return a small image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    rows = b"".join(b"\0" + bytes((200, 120, 40)) * width for _ in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", head),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        )
    )
