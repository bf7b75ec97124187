from decimal import Decimal
from hashlib import sha256

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.trace import StatusCode

from extensions.otel.spans import MAX_BODY_BYTES, SpanMaker
from extensions.otel.tests.collector import read_attributes
from runtime.settings import Settings
from store.traces.bodies.bodies import StoredBodies
from store.traces.calls.finished_calls import FinishedCalls
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.store.traffic import make_entry

BASE = {
    "created_at": "2026-01-02T03:04:05.678Z", "duration_ms": 2000.5, "ttfb_ms": 250.0,
    "proxy_overhead_ms": 1.5, "model": "claude-opus-5-5", "request_model": "claude-opus-5",
    "input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4,
    "output_tokens": 8, "thinking_tokens": 3, "cost_cents": Decimal("1.25"), "status_code": 200,
    "stop_reason": "end_turn", "max_tokens": 100, "session_id": "s", "agent_id": "a",
    "entry_id": "e1", "slug": "team", "client": "claude-cli/2.1",
    "request_body": b'{"the": "prompt"}', "response_body": b'{"the": "response"}',
}  # fmt: skip


@pytest.fixture
def export(tmp_path):
    """Returns a call as a span of OTLP, as a collector reads it."""
    traces_path = trace_path(tmp_path, "org_1")
    settings = Settings.from_env({"TAXIMETER_UPSTREAM_URL": "https://api.example.org/a"})
    maker = SpanMaker(settings.vendor, settings.upstream_url, "1.0")

    def export(organization="org_1", bodies=None, **changes):
        with TraceDatabase(traces_path) as traces:
            last = traces.connection.execute("select coalesce(max(id), 0) from usage").fetchone()[0]
            traces.insert([make_entry(**BASE | changes)])
        with FinishedCalls.open(traces_path) as calls:
            assert calls is not None
            (call,) = calls.read_after(last, 10)
            if bodies is True:
                bodies = calls.read_bodies(call.id)
        request = encode_spans([maker.make(organization, call, bodies)])
        (span,) = request.resource_spans[0].scope_spans[0].spans
        return span

    return export


def test_a_call_has_the_attributes_of_the_conventions_and_ours(export):
    span = export()
    assert span.name == "chat claude-opus-5"
    assert span.start_time_unix_nano == 1767323045678 * 1_000_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 2_000_500_000
    attributes = read_attributes(span)
    assert attributes == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic",
        "server.address": "api.example.org", "server.port": 443,
        "gen_ai.request.model": "claude-opus-5", "gen_ai.response.model": "claude-opus-5-5",
        "gen_ai.request.max_tokens": 100, "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["end_turn"],
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": 8,
        "gen_ai.usage.cache_creation.input_tokens": 2, "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 3,
        "gen_ai.conversation.id": "s", "gen_ai.agent.id": "a", "http.response.status_code": 200,
        "taximeter.entry_id": "e1", "taximeter.organization_id": "org_1",
        "taximeter.endpoint": "team", "taximeter.outcome": "complete",
        "taximeter.client": "claude-cli/2.1", "taximeter.cost_usd": 0.0125,
        "taximeter.first_byte_s": 0.25, "taximeter.proxy_overhead_s": 0.0015,
    }  # fmt: skip
    assert "prompt" not in str(span)


def test_a_call_says_for_whom_and_what_it_is_made(export):
    span = export(attributed_user="ann", project="shop", tags='["nightly","env:dev"]')
    attributes = read_attributes(span)
    assert attributes["taximeter.user"] == "ann"
    assert attributes["taximeter.project"] == "shop"
    assert attributes["taximeter.tags"] == ["nightly", "env:dev"]


def test_a_failure_is_an_error_with_its_type(export):
    span = export(outcome="upstream_error", error_type="overloaded_error", status_code=529)
    assert span.status.code == StatusCode.ERROR.value
    assert read_attributes(span)["error.type"] == "overloaded_error"
    cut = export(entry_id="e2", outcome="upstream_interrupted", error_type=None)
    assert read_attributes(cut)["error.type"] == "upstream_interrupted"
    left = export(entry_id="e3", outcome="client_disconnected", error_type=None)
    assert "error.type" not in read_attributes(left)


def test_what_is_not_known_is_left_out(export):
    unknown = dict.fromkeys(
        ("model", "request_model", "input_tokens", "cache_creation_input_tokens",
         "cache_read_input_tokens", "cost_cents", "duration_ms", "status_code", "session_id")
    )  # fmt: skip
    span = export(**unknown, usage_source="none")
    attributes = read_attributes(span)
    assert span.name == "chat"
    assert span.start_time_unix_nano == span.end_time_unix_nano
    assert not [name for name in attributes if "input_tokens" in name or "cost" in name]


def test_ids_are_those_of_the_call_and_its_session_wherever_it_is_sent_from(export):
    first, again = export(entry_id="e1"), export(entry_id="e2")
    alone = export(entry_id="e3", session_id=None)
    other = export("org_2", entry_id="e4")
    assert first.trace_id == again.trace_id
    assert len({first.span_id, again.span_id, alone.span_id, other.span_id}) == 4
    assert len({first.trace_id, alone.trace_id, other.trace_id}) == 3
    expected = sha256(b"org_1\0s").digest()[:16], sha256(b"org_1\0e1").digest()[:8]
    assert (first.trace_id, first.span_id) == expected


def test_bodies_are_sent_where_they_are_wished_and_are_text(export):
    attributes = read_attributes(export(bodies=True))
    assert attributes["taximeter.request_body"] == '{"the": "prompt"}'
    assert attributes["taximeter.response_body"] == '{"the": "response"}'
    odd = StoredBodies(request=b"\xff", response=b"x" * (MAX_BODY_BYTES + 1))
    assert "body" not in str(read_attributes(export(entry_id="e2", bodies=odd)))
