"""Breaks in calls that public projects recorded, which no simulation made."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from conversations.cache_breaks import CacheBreak, explain_break
from conversations.diagnosis import read_cache_report
from conversations.summaries import CallSummary, summarize_call
from conversations.units import read_prompt
from metering.billed_passes import Call, make_call
from metering.entry import UsageLogEntry
from metering.prices import PriceTable
from metering.usage import read_usage
from tests.conversations.sessions import measure_next
from tests.recorded import CASES, RECORDED, needs_recorded
from wire.json_reading import parse_object
from wire.request import Request

pytestmark = needs_recorded
PRICES = PriceTable()


class Replay:
    """Calls of one session, one a minute, with requests and responses as they were recorded."""

    def __init__(self) -> None:
        self.calls = list[CallSummary]()

    def send(self, request: bytes, response: bytes, content_type: str | None) -> CacheBreak | None:
        at = datetime(2026, 11, 20, 12, len(self.calls), tzinfo=UTC)
        usage = read_usage(200, content_type, response, is_complete=True)
        body = parse_object(request) or {}
        entry = UsageLogEntry(
            entry_id=f"e{len(self.calls)}",
            created_at=at.isoformat(),
            proxy_endpoint_id="pe",
            slug="default",
            outcome="complete",
            usage_source=usage.source,
            streamed=usage.streamed,
            model=usage.model,
            status_code=200,
            ttfb_ms=900.0,
            session_id="s",
        )
        prompt = read_prompt(Request(body))
        report = read_cache_report(usage)
        call = summarize_call(entry, usage, prompt, report)
        measured = measure_next(call, prompt, self.calls)
        self.calls.append(call)
        if measured is None:
            return None
        bill: Call = make_call(usage, created_at=at, outcome="complete", status_code=200)
        return explain_break(
            call,
            measured,
            bill,
            PRICES,
            prompt=prompt,
            before=prompt,
            requests=(Request(body), Request(body)),
        )

    def send_case(self, name: str, request: bytes | None = None) -> CacheBreak | None:
        case: dict[str, Any] = CASES[name]
        body = request or (RECORDED / f"{name}.request.json").read_bytes()
        response = (RECORDED / case["response_file"]).read_bytes()
        return self.send(body, response, case["content_type"])


@pytest.mark.parametrize(
    ("write", "read"),
    [
        ("ruby_cache_write", "ruby_cache_read"),
        ("otel_cache_stream", "otel_cache_stream_hit"),
        ("otel_cache_json", "otel_cache_json_hit"),
    ],
)
def test_a_prompt_that_was_written_and_then_read_breaks_nothing(write, read):
    replay = Replay()
    assert replay.send_case(write) is None
    assert replay.send_case(read) is None
    first, second = replay.calls
    assert first.prompt is not None
    assert second.prompt is not None
    assert first.prompt.digests == second.prompt.digests
    assert first.prefix_tokens == second.tokens.read > 1_000


def test_the_same_prompt_written_twice_is_a_break_that_nothing_explains():
    replay = Replay()
    assert replay.send_case("ruby_cache_write") is None
    found = replay.send_case("ruby_cache_write")
    assert found is not None
    assert (found.tokens, found.cause, found.found_by) == (7351, "unknown", "chain")
    # Haiku 4.5: $1.25 to write and $0.10 to read a million tokens
    assert found.extra_cost_cents is not None
    assert float(found.extra_cost_cents) == pytest.approx(7351 * 1.15 / 10_000)


def test_a_compaction_by_the_server_is_expected():
    replay = Replay()
    assert replay.send_case("pyd_compaction_cache_stream") is None
    assert replay.calls[0].is_rebuild
    assert replay.calls[0].prefix_tokens == 0
    assert replay.send_case("pyd_compaction_cache_stream") is None


def test_all_recorded_calls_in_one_session_miss_no_more_than_was_written_or_uncached():
    replay, asked = Replay(), json.dumps({"messages": []}).encode()
    missed = billed = 0
    for name, case in CASES.items():
        if case["status"] != 200:
            continue
        has_request = (RECORDED / f"{name}.request.json").exists()
        found = replay.send_case(name, None if has_request else asked)
        tokens = replay.calls[-1].tokens
        missed += found.tokens if found else 0
        billed += tokens.written + tokens.uncached
        assert found is None, name
    assert missed <= billed
    assert len(replay.calls) > 50
