"""The fields of an entry that describe the call on the wire."""

import json

import pytest

from tests.live.conftest import EndpointFactory
from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import EVENTS, STREAM, files_with
from tests.upstream import SSE_HEADERS, Gate, message_events, sse


def test_an_entry_has_what_the_wire_says(live: Endpoint) -> None:
    gate = Gate()
    headers = [
        ("request-id", "req_7"),
        ("anthropic-organization-id", "org-7"),
        ("anthropic-ratelimit-unified-status", "allowed"),
        *SSE_HEADERS,
    ]
    live.upstream.enqueue(sse([*EVENTS[:2], gate, *EVENTS[2:]], headers))
    sent = [
        *REQUEST_HEADERS,
        ("User-Agent", "claude-cli/2.1.283 (external, cli)"),
        ("x-claude-code-session-id", "session-1"),
        ("x-claude-code-agent-id", "agent-1"),
        ("x-claude-code-parent-agent-id", "parent-1"),
        ("x-claude-code-request-class", "subagent"),
        ("x-session-id", "of another program"),
    ]
    body = (
        b'{"model":"claude-sonnet-4-5","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    )
    with live.connect() as client:
        client.send(live.message(body, sent))
        response = client.read_response_head()
        pieces = client.iter_body(response)
        next(pieces)
        gate.open()
        assert list(pieces)
    row = live.row()
    assert row["created_at"].endswith("Z")
    assert 0 <= row["ttfb_ms"] <= row["duration_ms"]
    assert row["proxy_overhead_ms"] >= 0
    assert row["request_model"] == "claude-sonnet-4-5"
    assert row["upstream_request_id"] == "req_7"
    assert (row["session_id"], row["agent_id"]) == ("session-1", "agent-1")
    assert (row["parent_agent_id"], row["request_class"]) == ("parent-1", "subagent")
    assert json.loads(row["client_hints"]) == {"x-session-id": "of another program"}
    assert live.upstream.requests[-1].header("x-session-id") is None, "not forwarded, and yet kept"
    assert (row["title_text"], row["stop_reason"]) == ("hi", "end_turn")
    assert (row["billing"], row["upstream_organization_id"]) == ("api_key", "org-7")
    assert row["client"].startswith("claude-cli")
    assert (row["request_bytes"], row["response_bytes"]) == (len(body), len(STREAM))
    assert row["usage_source"] == "final"
    assert row["streamed"]
    assert float(row["cost_cents"]) == pytest.approx((11 * 3 + 7 * 15) / 10_000)


def test_an_endpoint_that_keeps_metadata_only_stores_no_body(
    make_endpoint: EndpointFactory,
) -> None:
    endpoint = make_endpoint("live", metadata_only=True)
    question, reply = "what-is-nobodys-business", "neither-is-this"
    endpoint.upstream.enqueue(sse(message_events([reply])))
    asked = {
        "model": "claude-asked-for",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": question}] * 3,
        "metadata": {"user_id": "user_1_account__session_5f3c"},
    }
    endpoint.send(endpoint.message(json.dumps(asked).encode()))
    row = endpoint.row()
    assert (row["request_body"], row["response_body"]) == (None, None)
    assert (row["input_tokens"], row["output_tokens"]) == (11, 7)
    assert (row["request_model"], row["session_id"]) == ("claude-asked-for", "5f3c")
    assert (row["max_tokens"], row["message_count"], row["tool_count"]) == (50, 3, 0)
    assert row["body_notes"] == "request not kept: metadata only; response not kept: metadata only"
    assert files_with(endpoint.service, question.encode(), reply.encode()) == []
