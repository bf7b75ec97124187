"""Sessions for tests: requests, what upstream counts for them, and what is found in them."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from conversations.cache_breaks import CacheBreak, Measured, explain_break, measure_break
from conversations.diagnosis import NO_REPORT, CacheReport
from conversations.predecessor import find_predecessor
from conversations.summaries import CallSummary, summarize_call
from conversations.units import Prompt, read_prompt
from metering.billed_passes import Call, make_call
from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from metering.usage import Usage, read_usage
from tests.conversations.upstream_cache import UpstreamCache
from wire.json_reading import parse_object
from wire.request import Request

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
PRICES = PriceTable()
MODEL = "claude-sonnet-4-5"
MARKER = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
LONG = "All that is known about ships is written here. " * 400  # some 4,700 tokens
# For ``request``, whose system prompt is marked otherwise.
UNMARKED: dict[str, Any] = {"system": [{"type": "text", "text": LONG}]}


def text(words: str, marker: Mapping[str, str] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words} | ({"cache_control": marker} if marker else {})


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def tool(name: str, description: str = "Reads a file.") -> dict[str, Any]:
    properties = {"path": {"type": "string"}, "limit": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description, "input_schema": schema}


def mark_last(body: dict[str, Any], marker: Mapping[str, str] = MARKER) -> dict[str, Any]:
    """Return the request with a marker on its last block, and none on other messages."""
    body = copy.deepcopy(body)
    for message in body["messages"]:
        if isinstance(message["content"], str):
            message["content"] = [text(message["content"])]
        for block in message["content"]:
            block.pop("cache_control", None)
    body["messages"][-1]["content"][-1]["cache_control"] = dict(marker)
    return body


def request(*messages: Any, **fields: Any) -> dict[str, Any]:
    """Return a request with two tools and a long system prompt, which are marked, and these messages."""
    body = {
        "model": MODEL,
        "max_tokens": 1000,
        "tools": [tool("Read"), tool("Bash", "Runs a command.")],
        "system": [text("Be brief."), text(LONG, MARKER)],
        "messages": list(messages),
    }
    return mark_last(body | fields)


def conversation(turns: int, opening: str = "A British ship. ") -> list[dict[str, Any]]:
    """Return the messages of a conversation: a user message and, for each further turn, two more."""
    messages = [user(text(opening + "What is her name? " * 200))]
    for turn in range(2, turns + 1):
        messages.append(assistant(text(f"Answer {turn - 1}: " + "she is named so. " * 100)))
        messages.append(user(text(f"Question {turn}: " + "and then? " * 100)))
    return messages


@dataclass
class Recorded:
    """One call as the recorder would have it."""

    request: dict[str, Any]
    entry: UsageLogEntry
    usage: Usage
    prompt: Prompt | None
    summary: CallSummary
    bill: Call
    found: CacheBreak | None = None


def measure_next(
    call: CallSummary, prompt: Prompt | None, candidates: Sequence[CallSummary]
) -> Measured | None:
    """Return the arithmetic of a break between a call and the one it continues, or None."""
    before = None if call.is_side_call else find_predecessor(call, prompt, candidates)
    return None if before is None else measure_break(call, before, candidates)


@dataclass
class Session:
    """Sends requests, one after the other, and looks for a break in each."""

    upstream: UpstreamCache = field(default_factory=UpstreamCache)
    calls: list[Recorded] = field(default_factory=list)
    at_s: float = 0.0

    def send(
        self,
        body: dict[str, Any],
        after_s: float = 10.0,
        counts: Mapping[str, Any] | None = None,
        report: CacheReport = NO_REPORT,
        **fields: Any,
    ) -> Any:
        """Return the break of a call that is sent so long after the one before, or None."""
        self.at_s += after_s
        call = self.record(body, self.at_s, counts, report, **fields)
        call.found = self.judge(call, report)
        self.calls.append(call)
        return call.found

    def record(
        self,
        body: dict[str, Any],
        at_s: float,
        counts: Mapping[str, Any] | None = None,
        report: CacheReport = NO_REPORT,
        *,
        keeps_bodies: bool = True,
        is_first_party: bool = True,
        answered_after_s: float | None = 1.0,
        response: bytes = b"",
        **fields: Any,
    ) -> Recorded:
        usage = _read(body, self.upstream.count(body, at_s) if counts is None else counts)
        values: dict[str, Any] = {
            "entry_id": f"entry-{len(self.calls)}-{at_s}",
            "created_at": (START + timedelta(seconds=at_s)).isoformat(),
            "proxy_endpoint_id": "pe",
            "slug": "default",
            "outcome": "complete",
            "usage_source": usage.source,
            "streamed": False,
            "model": usage.model,
            "status_code": 200 if answered_after_s is not None else 529,
            "ttfb_ms": None if answered_after_s is None else answered_after_s * 1000,
            "session_id": "s1",
            "max_tokens": 1000,
            "message_count": len(body["messages"]),
            "tool_count": len(body["tools"]) if isinstance(body.get("tools"), list) else 0,
        }
        entry = UsageLogEntry(**(values | fields))
        request = parse_object(json.dumps(body).encode()) or {}
        prompt = read_prompt(Request(request))
        if is_first_party:
            prompt = prompt.without_attribution()
        kept = prompt if keeps_bodies else None
        summary = summarize_call(entry, usage, kept, report, response)
        bill = make_call(
            usage,
            created_at=datetime.fromisoformat(entry.created_at),
            outcome=entry.outcome,
            status_code=entry.status_code,
        )
        return Recorded(body, entry, usage, prompt if keeps_bodies else None, summary, bill)

    def judge(self, call: Recorded, report: CacheReport = NO_REPORT) -> Any:
        """Return the break of a call among those that were sent, or None."""
        calls = [each.summary for each in self.calls]
        measured = measure_next(call.summary, call.prompt, calls)
        if measured is None:
            return None
        [before] = [c for c in self.calls if c.entry.entry_id == measured.predecessor.entry_id]
        has_both = call.prompt is not None and before.prompt is not None
        return explain_break(
            call.summary,
            measured,
            call.bill,
            PRICES,
            prompt=call.prompt,
            before=before.prompt,
            requests=(Request(before.request), Request(call.request)) if has_both else None,
            report=report,
        )


def _read(body: dict[str, Any], counts: Mapping[str, Any]) -> Usage:
    counts = dict(counts)
    if "ephemeral_5m_input_tokens" in counts:
        counts["cache_creation"] = {
            name: counts.pop(name)
            for name in ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
        }
    answer = {
        "model": counts.pop("model", body["model"]),
        "stop_reason": "end_turn",
        "usage": {"output_tokens": 50} | counts,
    }
    return read_usage(
        200, "application/json", orjson.dumps(answer), is_complete=True, cache_ttl="5m"
    )
