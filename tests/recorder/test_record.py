import gzip
import json
import sqlite3
from dataclasses import asdict, astuple, replace
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from metering import token_counts
from metering.entry import UsageLogEntry
from metering.limit_windows import fingerprint_account
from metering.prices import PriceTable
from metering.pricing import price_call
from metering.rate_limits import RateLimits
from recorder.record import make_entry
from recorder.requests import RequestReader
from store.spool.format import Ending, RequestHead, ResponseHead, SpooledExchange
from store.traces.database import TraceDatabase
from tests.metering.responses import event
from tests.recorded import CASES, RECORDED, load_expected, needs_recorded

PRICES = PriceTable()
HEAD = RequestHead(
    entry_id="0198c0de",
    created_at="2026-11-20T10:00:00.123Z",
    organization_id="org",
    proxy_endpoint_id="endpoint",
    slug="team-a",
    metadata_only=False,
    request_bytes=40,
    request_body="whole",
)
STREAM = ResponseHead(status_code=200, content_type="text/event-stream")
DOCUMENT = ResponseHead(status_code=200, content_type="application/json")
REQUEST = b'{"model":"claude-opus-5","stream":true}'


START = event(
    "message_start",
    message={"model": "claude-opus-5", "usage": {"input_tokens": 10, "output_tokens": 1}},
)
DELTA = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 20})
STOP = event("message_stop")
ERROR = event("error", error={"type": "overloaded_error", "message": "busy"})


def exchange(
    body: bytes = START + DELTA + STOP,
    response: ResponseHead | None = STREAM,
    *,
    request: bytes | None = REQUEST,
    outcome: str = "complete",
    head: dict[str, object] | None = None,
    ending: dict[str, object] | None = None,
) -> SpooledExchange:
    ended = Ending(outcome=outcome, duration_ms=1234.56, response_bytes=len(body))  # type: ignore[arg-type]
    return SpooledExchange(
        head=replace(HEAD, **(head or {})),  # type: ignore[arg-type]
        request_body=request,
        response=response,
        ttfb_ms=98.76 if response else None,
        response_body=body,
        last_byte_ms=1200.0,
        ending=replace(ended, **(ending or {})),  # type: ignore[arg-type]
    )


def make(*arguments, **options) -> UsageLogEntry:
    return make_entry(exchange(*arguments, **options), PRICES, RequestReader())


def test_a_whole_stream_becomes_a_whole_entry():
    entry = make(
        head={
            "user_agent": "claude-cli/2.1.300 (external, cli)",
            "session_id": "session",
            "agent_id": "agent",
            "retry_count": "2",
            "credential_hmac": "abc",
            "path_query": "/v1/messages?beta=true",
            "api_version": "2023-06-01",
            "betas": "a,b",
            "run_id": "build-42",
        },
        response=replace(STREAM, upstream_request_id="req_1"),
        ending={"proxy_overhead_ms": 0.449},
    )
    assert (entry.entry_id, entry.slug, entry.proxy_endpoint_id) == (
        "0198c0de",
        "team-a",
        "endpoint",
    )
    assert (entry.created_at, entry.status_code) == ("2026-11-20T10:00:00.123Z", 200)
    assert (entry.outcome, entry.usage_source, entry.streamed) == ("complete", "final", True)
    assert (entry.model, entry.request_model) == ("claude-opus-5", "claude-opus-5")
    assert (entry.tokens.input_tokens, entry.tokens.output_tokens) == (10, 20)
    assert (entry.tokens.cache_creation_input_tokens, entry.tokens.cache_read_input_tokens) == (
        None,
        None,
    )
    assert entry.cost_cents == Decimal("0.055")
    assert [item.cents for item in entry.cost_items] == [Decimal("0.005"), Decimal("0.05")]
    assert (entry.duration_ms, entry.ttfb_ms, entry.proxy_overhead_ms) == (1234.6, 98.8, 0.4)
    assert (entry.request_body, entry.response_body) == (REQUEST, START + DELTA + STOP)
    assert (entry.session_id, entry.agent_id, entry.client) == (
        "session",
        "agent",
        "claude-cli/2.1.300",
    )
    assert (entry.retry_count, entry.upstream_request_id) == (2, "req_1")
    assert (entry.request_bytes, entry.response_bytes) == (40, len(START + DELTA + STOP))
    assert (entry.error_type, entry.credential_hmac) == (None, "abc")
    assert (entry.path_query, entry.api_version) == ("/v1/messages?beta=true", "2023-06-01")
    assert (entry.betas, entry.run_id) == ("a,b", "build-42")


@pytest.mark.parametrize(
    ("body", "response", "outcome", "error_type"),
    [
        (START + DELTA, STREAM, "complete", None),
        (START + STOP, STREAM, "complete", None),
        (START, STREAM, "upstream_interrupted", None),
        (b"", STREAM, "upstream_interrupted", None),
        (START + ERROR, STREAM, "upstream_error", "overloaded_error"),
        (ERROR, replace(STREAM, status_code=529), "upstream_error", "overloaded_error"),
        (b"<html>", ResponseHead(status_code=502), "upstream_error", None),
        (b"", ResponseHead(status_code=503), "upstream_error", None),
        (b'{"type":"message"}', DOCUMENT, "complete", None),
        (b'{"type":"message","stop_reason":"end_turn"}', STREAM, "complete", None),
        (
            b'{"type":"error","error":{"type":"invalid_request_error"}}',
            replace(DOCUMENT, status_code=400),
            "upstream_error",
            "invalid_request_error",
        ),
    ],
)
def test_the_body_refines_the_outcome(body, response, outcome, error_type):
    entry = make(body, response)
    assert (entry.outcome, entry.error_type) == (outcome, error_type)


@pytest.mark.parametrize(
    "outcome",
    [
        "upstream_interrupted",
        "upstream_unreachable",
        "upstream_timeout",
        "client_disconnected",
        "proxy_restarted",
    ],
)
@pytest.mark.parametrize("body", [START, START + DELTA + STOP, START + ERROR])
def test_a_failure_on_the_wire_stays_what_it_was(outcome, body):
    is_left_after_error = outcome == "client_disconnected" and ERROR in body
    entry = make(body, outcome=outcome, ending={"error_type": "api_error"})
    assert entry.outcome == ("upstream_error" if is_left_after_error else outcome)
    assert entry.error_type == ("overloaded_error" if ERROR in body else "api_error")
    assert entry.tokens.input_tokens == 10


def test_a_client_that_leaves_an_error_response_did_not_make_the_call_fail():
    entry = make(b'{"type":"err', replace(DOCUMENT, status_code=529), outcome="client_disconnected")
    assert (entry.outcome, entry.cost_cents) == ("upstream_error", Decimal(0))


def test_an_exchange_without_an_answer_is_an_entry_without_numbers():
    entry = make(b"", None, outcome="upstream_unreachable", ending={"error_type": "connect_failed"})
    assert (entry.status_code, entry.response_body, entry.ttfb_ms) == (None, None, None)
    assert (entry.usage_source, entry.cost_cents, entry.cost_items) == ("none", Decimal(0), ())
    assert (entry.streamed, entry.error_type) == (False, "connect_failed")


def test_bytes_lost_by_the_spool_do_not_make_a_stream_interrupted():
    entry = make(START, ending={"response_lost": True})
    assert (entry.outcome, entry.usage_source) == ("complete", "partial")


def test_a_stream_that_cannot_be_decoded_is_not_called_interrupted():
    response = replace(STREAM, content_encoding="secret")
    entry = make(b"\x00\x01", response)
    assert (entry.outcome, entry.response_body) == ("complete", b"\x00\x01")


def test_a_compressed_stream_that_stops_in_the_middle_is_interrupted():
    wire = gzip.compress(START)[:-8]
    entry = make(wire, replace(STREAM, content_encoding="gzip"))
    assert (entry.outcome, entry.usage_source) == ("upstream_interrupted", "estimated")
    assert entry.response_body == START


def test_bodies_are_stored_decoded_and_sizes_are_those_of_the_wire():
    body = b'{"type":"message","model":"claude-opus-5","usage":{"input_tokens":1}}'
    wire = gzip.compress(body)
    entry = make(
        wire,
        replace(DOCUMENT, content_encoding="gzip"),
        request=gzip.compress(REQUEST),
        head={"content_encoding": "gzip"},
    )
    assert (entry.request_body, entry.response_body) == (REQUEST, body)
    assert (entry.response_bytes, entry.request_model) == (len(wire), "claude-opus-5")


LONG_REQUEST = json.dumps(
    {
        "model": "claude-opus-5",
        "max_tokens": 64_000,
        "thinking": {"type": "enabled", "budget_tokens": 8_000},
        "output_config": {"effort": "high"},
        "system": [
            {"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        ],
        "tools": [{"name": "private_tool"}],
        "messages": [
            {"role": "user", "content": "Mend the test"},
            {"role": "assistant", "content": "private answer"},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}],
            },
        ],
    }
).encode()
USAGE = {
    "input_tokens": 10,
    "output_tokens": 200,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    "output_tokens_details": {"thinking_tokens": 50},
    "server_tool_use": {"web_search_requests": 2},
}
REFUSED = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber"}}
REFUSED_STREAM = (
    event("message_start", message={"model": "claude-opus-5", "usage": USAGE})
    + event("message_delta", delta=REFUSED, usage={"output_tokens": 200})
    + STOP
)
REFUSED_DOCUMENT = json.dumps(
    {"type": "message", "model": "claude-opus-5", "usage": USAGE, **REFUSED}
).encode()


@pytest.mark.parametrize(
    ("body", "response"), [(REFUSED_STREAM, STREAM), (REFUSED_DOCUMENT, DOCUMENT)]
)
def test_an_entry_says_what_request_and_response_say_of_themselves(body, response):
    entry = make(
        body,
        replace(response, upstream_organization_id="org-1", workspace_id="wrkspc_1"),
        request=LONG_REQUEST,
        head={
            "credential_kind": "api_key",
            "workspace_id": "wrkspc_of_the_request",
            "client_hints": {
                "x-claude-code-parent-agent-id": "parent",
                "x-claude-code-request-class": "subagent",
                "x-claude-code-prompt-id": "prompt",
                "x-claude-code-prev-tool-durations": "Bash=742;Read=9",
                "trace-id": "abc",
            },
        },
        ending={"duration_ms": 1_098.8},
    )
    assert (entry.stop_reason, entry.refusal_category) == ("refusal", "cyber")
    assert (entry.thinking_tokens, entry.cache_write_1h_tokens) == (50, 20)
    assert entry.web_search_requests == 2
    assert entry.output_tokens_per_s == (200.0 if entry.streamed else None)
    assert (entry.effort, entry.thinking_budget, entry.cache_ttl) == ("high", 8_000, "1h")
    assert (entry.max_tokens, entry.message_count, entry.tool_count) == (64_000, 3, 1)
    assert entry.title_text == "Mend the test"
    assert (entry.parent_agent_id, entry.request_class) == ("parent", "subagent")
    assert entry.prompt_id == "prompt"
    assert json.loads(entry.client_hints or "") == {
        "trace-id": "abc",
        "x-claude-code-prev-tool-durations": "Bash=742;Read=9",
    }
    assert (entry.billing, entry.overage, entry.rate_limits) == ("api_key", None, None)
    assert (entry.upstream_organization_id, entry.workspace_id) == ("org-1", "wrkspc_1")


def test_an_entry_of_which_nothing_more_is_known_has_no_more_fields():
    entry = make(b'{"type":"message","usage":{"input_tokens":1}}', DOCUMENT)
    for name in (
        "stop_reason",
        "refusal_category",
        "thinking_tokens",
        "web_search_requests",
        "output_tokens_per_s",
        "effort",
        "thinking_budget",
        "cache_ttl",
        "title_text",
        "parent_agent_id",
        "request_class",
        "prompt_id",
        "client_hints",
        "billing",
        "overage",
        "upstream_organization_id",
        "workspace_id",
        "rate_limits",
        "message_id",
        "thread",
        "thread_previous_id",
        "user_profile_id",
        "container_id",
        "container_unnamed",
        "changed_by_upstream",
        "limited_by",
    ):
        assert getattr(entry, name) is None, name
    assert entry.cache_write_1h_tokens == 0
    assert make(b"", None, outcome="upstream_unreachable").cache_write_1h_tokens is None


CONTINUE = {"type": "continue", "previous_message_id": "msg_1"}


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        ({"type": "create"}, ("create", None)),
        ({"type": "create", "previous_message_id": "msg_1"}, ("create", None)),
        (CONTINUE, ("continue", "msg_1")),
        ({"type": "continue"}, ("continue", None)),
        ({"type": "continue", "previous_message_id": ["msg_1"]}, ("continue", None)),
        ({"type": "fork"}, (None, None)),
        ("continue", (None, None)),
        (None, (None, None)),
    ],
)
def test_an_entry_says_which_message_its_thread_continues(thread, expected):
    entry = make(request=json.dumps({"model": "m", "thread": thread, "messages": []}).encode())
    assert (entry.thread, entry.thread_previous_id) == expected


@pytest.mark.parametrize(
    ("body", "response"),
    [
        (event("message_start", message={"id": "msg_2", "model": "m"}) + STOP, STREAM),
        (b'{"type":"message","id":"msg_2","model":"m"}', DOCUMENT),
    ],
)
def test_an_entry_has_the_id_of_its_message_and_the_profile_that_it_is_for(body, response):
    request = json.dumps({"thread": CONTINUE}).encode()
    head: dict[str, object] = {"user_profile_id": "uprof_1"}
    entry = make(body, response, request=request, head=head)
    assert (entry.message_id, entry.user_profile_id) == ("msg_2", "uprof_1")
    assert entry.product == "messages"
    head |= {"metadata_only": True, "thread": "continue", "thread_previous_id": "msg_1"}
    entry = make(body, response, request=None, head=head)
    assert (entry.message_id, entry.user_profile_id) == ("msg_2", "uprof_1")
    assert (entry.thread, entry.thread_previous_id) == ("continue", "msg_1")


CHAT_REQUEST = b'{"model":"claude-opus-5","messages":[{"role":"user","content":"Hi"}]}'


def test_a_chat_completion_costs_its_input_and_output_at_list_prices():
    counts = {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100}
    body = {"id": "msg_2", "model": "claude-opus-5", "choices": [], "usage": counts}
    entry = make(
        json.dumps(body).encode(),
        DOCUMENT,
        request=CHAT_REQUEST,
        head={"record": "chat_completions"},
    )
    assert (entry.product, entry.outcome) == ("chat_completions", "complete")
    assert entry.cost_cents == Decimal("0.75")  # 1000 x 5 + 100 x 25 USD per million
    assert (entry.message_count, entry.title_text, entry.message_id) == (1, "Hi", "msg_2")
    assert entry.request_body == CHAT_REQUEST


def test_a_chat_completion_that_was_cut_has_no_estimate():
    body = b'data: {"model":"claude-opus-5","choices":[{"delta":{"role":"assistant"}}]}\n\n'
    entry = make(body, STREAM, request=CHAT_REQUEST, head={"record": "chat_completions"})
    assert (entry.outcome, entry.usage_source) == ("upstream_interrupted", "none")
    assert entry.cost_cents is None


def test_where_no_text_is_kept_an_id_that_is_text_is_none():
    head = {"metadata_only": True, "thread_previous_id": "private text", "user_profile_id": "a b"}
    body = b'{"type":"message","id":"private text","container":{"id":"private text"}}'
    entry = make(body, DOCUMENT, request=None, head=head)
    assert (entry.message_id, entry.thread_previous_id, entry.user_profile_id) == (None,) * 3
    assert entry.container_id is None


BILL_CUSTOMER = {"type": "billing_policy", "bill_to": "user_profile"}


@pytest.mark.parametrize(
    ("status_code", "billing"), [(200, "customer"), (402, "api_key"), (403, "api_key")]
)
def test_a_customer_pays_where_the_request_asks_for_it(status_code, billing):
    request = json.dumps({"model": "m", "billing_policy": BILL_CUSTOMER}).encode()
    response = replace(DOCUMENT, status_code=status_code)
    head: dict[str, object] = {"credential_kind": "api_key"}
    assert make(b"{}", response, request=request, head=head).billing == billing
    head |= {"metadata_only": True, "bill_to": "user_profile"}
    assert make(b"{}", response, request=None, head=head).billing == billing


@pytest.mark.parametrize(
    ("body", "response"),
    [
        (
            START
            + event("message_delta", delta={"container": {"id": "container_1"}}, usage={})
            + event("message_delta", delta={"stop_reason": "end_turn", "container": None}, usage={})
            + STOP,
            STREAM,
        ),
        (b'{"type":"message","container":{"id":"container_1"}}', DOCUMENT),
    ],
)
def test_an_entry_has_the_container_that_its_code_ran_in(body, response):
    assert make(body, response).container_id == "container_1"


EDITS = {"applied_edits": [{"type": "clear_thinking_20251015", "cleared_thinking_turns": 1}]}
DROPPED = [{"type": "thinking_dropped", "path": "messages.1.content.0"}]


@pytest.mark.parametrize(
    ("body", "response"),
    [
        (
            START
            + event(
                "message_delta",
                delta={"stop_reason": "end_turn", "input_transformations": DROPPED},
                usage={},
                context_management=EDITS,
            )
            + STOP,
            STREAM,
        ),
        (
            json.dumps({"context_management": EDITS, "input_transformations": DROPPED}).encode(),
            DOCUMENT,
        ),
    ],
)
def test_an_entry_says_what_upstream_has_changed_in_the_request(body, response):
    changed = make(body, response).changed_by_upstream
    assert changed == "cleared,dropped_thinking"
    head = {"metadata_only": True}
    assert make(body, response, request=None, head=head).changed_by_upstream == changed


_CODE = {"type": "server_tool_use", "name": "bash_code_execution"}
_SEARCH = {"type": "server_tool_use", "name": "web_search"}
_OF_CODE = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}
_OF_MODEL = {"caller": {"type": "direct"}, "input": {"query": "code_execution"}}


@pytest.mark.parametrize(
    ("block", "runs_code"),
    [
        (_CODE, True),
        (_SEARCH, None),
        (_SEARCH | _OF_CODE, True),
        ({"type": "tool_use", "name": "own"} | _OF_CODE, True),
        ({"type": "tool_use", "name": "own"} | _OF_MODEL, None),
        ({"type": "tool_use", "name": "own", "caller": "code_execution"}, None),
        ({"type": "text", "text": "code_execution"} | _OF_CODE, None),
    ],
)
def test_code_whose_container_a_cut_response_does_not_name_is_marked(block, runs_code):
    body = START + event("content_block_start", index=0, content_block=block)
    entry = make(body, STREAM, outcome="client_disconnected")
    assert (entry.container_id, entry.container_unnamed) == (None, runs_code)
    head = {"metadata_only": True}
    of_names = make(body, STREAM, outcome="client_disconnected", request=None, head=head)
    assert of_names.container_unnamed == runs_code
    named = event("message_delta", delta={"container": {"id": "container_1"}}, usage={})
    assert make(body + named, STREAM, outcome="client_disconnected").container_unnamed is None
    whole = event("message_delta", delta={"stop_reason": "end_turn"}, usage={}) + STOP
    assert make(body + whole, STREAM).container_unnamed is None


@pytest.mark.parametrize(
    ("tool", "are_free"),
    [
        ("web_search_20250305", None),
        ("web_search_20260209", True),
        ("web_fetch_20260309", True),
        ("code_execution_20260521", None),
    ],
)
def test_containers_beside_newer_web_tools_are_free(tool, are_free):
    tools = [{"name": "own"}, "no tool", {"type": tool, "name": "tool"}]
    document: dict[str, object] = {"model": "m", "tools": tools}
    for request in (document | {"messages": []}, {"messages": [], **document}):
        entry = make(b"{}", DOCUMENT, request=json.dumps(request).encode())
        assert entry.free_containers is are_free
    head = {"metadata_only": True, "free_containers": are_free}
    assert make(b"{}", DOCUMENT, request=None, head=head).free_containers is are_free


def test_a_pause_until_a_date_begins_when_the_response_does():
    limits = {"retry-after": "Fri, 20 Nov 2026 10:00:30 GMT"}
    entry = make(b"", replace(DOCUMENT, status_code=429, rate_limits=limits))
    assert entry.rate_limits == RateLimits(retry_after_s=29.778)
    assert entry.limited_by == "throttle"


def test_a_subscription_is_known_by_its_limits():
    limits = {"unified-status": "allowed", "unified-representative-claim": "overage"}
    entry = make(response=replace(STREAM, rate_limits=limits), head={"credential_kind": "other"})
    assert (entry.billing, entry.overage) == ("subscription", True)
    assert entry.rate_limits is not None
    assert entry.rate_limits.unified_claim == "overage"


HOSTILE_TEXTS = ["x" * 10_000, "a\x00b\x1b[31m\n", "ü\ud800", ""]


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_fields_of_hostile_headers_can_be_stored(text, tmp_path):
    hints = dict.fromkeys(("x-claude-code-parent-agent-id", "x-session-id", "trace-id"), text)
    entry = make(
        response=replace(
            STREAM,
            upstream_organization_id=text,
            workspace_id=text,
            rate_limits={"unified-status": text, "requests-limit": text, "new": text},
        ),
        head={"client_hints": hints, "workspace_id": text, "effort": text},
    )
    assert len(entry.parent_agent_id or "") <= 200
    assert len(entry.client_hints or "") <= 13_000
    with TraceDatabase(tmp_path / "traces.db") as traces:
        traces.insert([entry])
        (row,) = traces.connection.execute("select * from usage_log").fetchall()
    assert entry.entry_id in row


@pytest.mark.parametrize("count", [-1, 1e400, "7", True, 10**13, 0.5, None, []])
def test_counts_that_are_none_are_missing(count):
    request = json.dumps(
        {
            "max_tokens": count,
            "thinking": {"budget_tokens": count},
            "output_config": {"effort": count},
            "messages": [],
        }
    ).replace("Infinity", "1e400")
    usage = {
        "input_tokens": 1,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": count},
        "server_tool_use": {"web_search_requests": count},
        "cache_creation": {"ephemeral_1h_input_tokens": count},
    }
    body = json.dumps({"type": "message", "stop_reason": count, "usage": usage})
    entry = make(body.replace("Infinity", "1e400").encode(), DOCUMENT, request=request.encode())
    assert (entry.max_tokens, entry.thinking_budget) == (None, None)
    assert (entry.thinking_tokens, entry.web_search_requests) == (None, None)
    assert entry.cache_write_1h_tokens == 0
    text = count if isinstance(count, str) else None
    assert (entry.effort, entry.stop_reason) == (text, text)
    assert entry.tokens.input_tokens == 1


@pytest.mark.parametrize(
    ("body", "ending", "speed"),
    [
        (START + DELTA + STOP, {"duration_ms": 1_098.8}, 20.0),
        (START + DELTA + STOP, {"duration_ms": 98.8}, None),
        (START + DELTA + STOP, {"duration_ms": 50.0}, None),
        (START, {"duration_ms": 1_098.8}, None),
    ],
)
def test_the_speed_is_that_of_a_whole_stream_that_took_its_time(body, ending, speed):
    assert make(body, ending=ending).output_tokens_per_s == speed


def test_an_entry_of_metadata_only_has_no_bodies_but_its_counts():
    entry = make(head={"metadata_only": True, "request_body": "omitted"}, request=None)
    assert (entry.request_body, entry.response_body) == (None, None)
    assert (entry.tokens.input_tokens, entry.request_model) == (10, None)


def test_an_entry_of_metadata_only_has_no_title_even_if_there_is_a_body():
    entry = make(head={"metadata_only": True}, request=LONG_REQUEST)
    assert entry.message_count == 3
    assert "Mend" not in str(asdict(entry))


def test_an_entry_of_metadata_only_has_names_and_no_text_in_their_place():
    text = "a private text"
    body = json.dumps(
        {
            "type": "error",
            "error": {"type": text},
            "model": text,
            "stop_reason": text,
            "stop_details": {"category": text},
            "usage": {
                "input_tokens": 10,
                "output_tokens": 0,
                "service_tier": text,
                "speed": text,
                "inference_geo": text,
            },
        }
    ).encode()
    head = {
        "request_model": text,
        "session_id": text,
        "agent_id": text,
        "api_version": text,
        "betas": f"beta-1, {text},beta-2",
        "user_agent": "private\u00e9/1.0 text",
        "workspace_id": text,
        "effort": text,
        "client_hints": {
            "x-claude-code-parent-agent-id": text,
            "x-claude-code-request-class": "main",
            "x-claude-code-prev-tool-durations": "private_tool=5",
            "x-session-id": text,
            "trace-id": "abc",
        },
    }
    response = replace(
        DOCUMENT,
        upstream_request_id=text,
        upstream_organization_id=text,
        workspace_id=text,
        rate_limits={"requests-limit": "5", "unified-new": text, "unified-plan": "max"},
    )
    kept = make(body, response, head=head, request=LONG_REQUEST)
    entry = make(body, response, head={**head, "metadata_only": True}, request=None)
    assert str(asdict(kept)).count("private") > 20
    assert "private" not in str(asdict(entry))
    assert (entry.request_class, entry.client_hints) == ("main", '{"trace-id":"abc"}')
    assert entry.rate_limits == RateLimits(requests_limit=5, other='{"unified-plan":"max"}')
    assert (entry.betas, entry.tokens.input_tokens, len(entry.cost_items)) == (
        "beta-1,beta-2",
        10,
        1,
    )


@pytest.mark.parametrize(
    "name",
    [
        "claude-opus-5",
        "anthropic.claude-opus-5-v1:0",
        "publishers/anthropic/models/claude-opus-5@20260101",
        "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0",
    ],
)
def test_an_entry_of_metadata_only_keeps_names_as_they_are(name):
    body = json.dumps({"model": name, "usage": {"input_tokens": 10}}).encode()
    head = {"metadata_only": True, "request_model": name, "session_id": "5f3c", "betas": "a,b"}
    head["user_agent"] = "Anthropic/Python 2.11.0"
    entry = make(body, DOCUMENT, request=None, head=head)
    assert (entry.model, entry.request_model, entry.session_id) == (name, name, "5f3c")
    assert (entry.betas, entry.client) == ("a,b", "Anthropic/Python 2.11.0")


@pytest.mark.parametrize(
    "request_body",
    [
        None,
        b"",
        b"\x00\xff\x80",
        b"[]",
        b'"model"',
        b'{"model":7}',
        b'{"model":',
        b'{"metadata":1}',
    ],
)
def test_a_request_that_is_no_message_request_has_no_model_and_no_session(request_body):
    entry = make(request=request_body)
    assert (entry.request_model, entry.session_id) == (None, None)
    assert entry.request_body == request_body


UUID = "0b9a7c1e-4a3f-4f53-9d5b-2b1f0a6f8e21"


@pytest.mark.parametrize(
    ("user_id", "session_id"),
    [
        (f"user_ab12_account_{UUID[::-1]}_session_{UUID}", UUID),
        (json.dumps({"device_id": "d", "session_id": UUID}), UUID),
        (json.dumps({"device_id": "d"}), None),
        ("{broken", None),
        ("customer-17", None),
        (17, None),
        (None, None),
    ],
)
def test_the_session_of_older_clients_is_in_the_request(user_id, session_id):
    request = json.dumps({"model": "m", "metadata": {"user_id": user_id}}).encode()
    assert make(request=request).session_id == session_id
    assert make(request=request, head={"session_id": "header"}).session_id == "header"


UNIFIED = {"unified-status": "allowed", "unified-5h-utilization": "0.5"}


def find_account(user_id, head=(), **changes):
    response = replace(STREAM, rate_limits=UNIFIED, **changes)
    body = json.dumps({"metadata": {"user_id": user_id}}).encode()
    entry = make(response=response, request=body, head={"credential_hmac": "c", **dict(head)})
    assert entry.rate_limits is not None
    return entry.rate_limits.account


def test_the_limits_of_a_subscription_are_those_of_the_account_that_the_client_names():
    newer = json.dumps({"device_id": "d", "account_uuid": UUID, "session_id": "s"})
    account = find_account(newer)
    assert account == find_account(f"user_ab12_account_{UUID}_session_{UUID[::-1]}")
    assert account == find_account("", {"account_hmac": fingerprint_account(UUID, "org")})
    assert account != find_account(newer, upstream_organization_id="org-of-upstream")
    assert UUID not in account


@pytest.mark.parametrize(
    "user_id", [json.dumps({"account_uuid": "", "session_id": "s"}), "{broken", "customer-17", None]
)
def test_where_the_client_names_no_account_they_are_those_of_the_credential(user_id):
    assert find_account(user_id) == "c"


@pytest.mark.parametrize(
    ("user_agent", "client"),
    [
        ("claude-cli/2.1 (external)", "claude-cli/2.1"),
        ("Anthropic/Python 2.11.0", "Anthropic/Python 2.11.0"),
        ("AsyncAnthropic/JS v0.7.0-beta.1 (linux)", "AsyncAnthropic/JS v0.7.0-beta.1"),
        ("Anthropic/Python (linux) 2.11", "Anthropic/Python"),
        ("claude-cli/2.1 3.0", "claude-cli/2.1"),
        ("curl 8.5.0", "curl"),
        ("curl/8.5.0", "curl/8.5.0"),
        ("  ", None),
        ("", None),
        (None, None),
    ],
)
def test_the_client_is_the_first_product_of_the_user_agent_with_its_version(user_agent, client):
    assert make(head={"user_agent": user_agent}).client == client


@pytest.mark.parametrize(
    ("header", "count"),
    [("0", 0), ("2", 2), (None, None), ("", None), ("-1", None), ("x", None), ("9" * 40, None)],
)
def test_the_retry_count_is_a_small_number_or_none(header, count):
    assert make(head={"retry_count": header}).retry_count == count


def test_the_last_byte_stands_in_for_a_missing_duration():
    assert make(ending={"duration_ms": None}).duration_ms == 1200.0


def test_a_time_that_is_no_number_is_none():
    assert make(ending={"duration_ms": float("nan")}).duration_ms is None


BOMB = gzip.compress(64 * gzip.compress(bytes(1_000_000)))


@pytest.mark.parametrize(
    ("changes", "notes", "request_body", "response_body"),
    [
        ({}, None, REQUEST, START),
        ({"head": {"content_encoding": "gzip, gzip"}, "request": BOMB},
         "request as received: too large to decode", BOMB, START),
        ({"head": {"content_encoding": "gzip"}}, "request as received: damaged encoding", REQUEST, START),
        ({"head": {"content_encoding": "x"}}, "request as received: unknown encoding", REQUEST, START),
        ({"head": {"content_encoding": "br, br, br, br"}},
         "request as received: too many encodings", REQUEST, START),
        ({"request": None}, "request not kept: disk reserve", None, START),
        ({"request": None, "head": {"request_bytes": None}},
         "request not kept: too large to hold", None, START),
        ({"response": replace(STREAM, content_encoding="gzip, gzip"), "body": BOMB},
         "response as received: too large to decode", REQUEST, BOMB),
        ({"ending": {"response_lost": True}}, "response incomplete: spool not writable", REQUEST, START),
        ({"ending": {"response_lost": True}, "response": None, "body": b""},
         "response not kept: spool not writable", REQUEST, None),
        ({"response": None, "body": b""}, None, REQUEST, None),
        ({"head": {"metadata_only": True}, "request": None},
         "request not kept: metadata only; response not kept: metadata only", None, None),
        ({"head": {"metadata_only": True}, "request": None, "response": None},
         "request not kept: metadata only", None, None),
    ],
)  # fmt: skip
def test_the_entry_says_what_is_missing_of_its_bodies_and_why(
    changes, notes, request_body, response_body
):
    entry = make(**({"body": START} | changes))
    assert entry.body_notes == notes
    assert (entry.request_body, entry.response_body) == (request_body, response_body)


def test_the_numbers_of_a_request_are_those_of_its_body():
    request = {"model": "m", "max_tokens": 9, "messages": [{"role": "user"}] * 4, "tools": [{}]}
    entry = make(request=json.dumps(request).encode(), head={"max_tokens": 1, "request_model": "x"})
    assert (entry.request_model, entry.max_tokens) == ("m", 9)
    assert (entry.message_count, entry.tool_count) == (4, 1)


def test_where_the_body_is_not_kept_they_are_those_that_the_proxy_read():
    head = {"request_model": "m", "max_tokens": 9, "message_count": 4, "tool_count": 0}
    entry = make(request=None, head={"metadata_only": True, **head})
    assert {name: getattr(entry, name) for name in head} == head


HOSTILE = "\ud800\0é" * 5000


def test_hostile_values_are_bounded_and_fit_into_sqlite():
    document = {
        "type": "error",
        "model": HOSTILE,
        "error": {"type": HOSTILE},
        "usage": {"input_tokens": 1, "service_tier": HOSTILE, "speed": HOSTILE},
    }
    names = ("user_agent", "session_id", "agent_id", "credential_hmac", "path_query", "betas")
    entry = make(
        json.dumps(document).encode(),
        replace(DOCUMENT, upstream_request_id=HOSTILE),
        request=json.dumps({"model": HOSTILE}).encode(),
        head=dict.fromkeys(names, HOSTILE),
        ending={"error_type": HOSTILE},
    )
    assert (len(entry.path_query or ""), len(entry.betas or "")) == (2_000, 1_000)
    texts = [value for value in astuple(entry) if isinstance(value, str)]
    bounded = [text for text in texts if text not in (entry.path_query, entry.betas)]
    assert max(len(text) for text in bounded) == 200
    assert entry.cost_items[0].model == entry.model
    rows = sqlite3.connect(":memory:")
    for text in texts:
        (stored,) = rows.execute("select ?", (text,)).fetchone()
        assert stored == text
        assert "\0" not in stored
    rows.close()


@given(
    st.binary(max_size=120),
    st.binary(max_size=120),
    st.sampled_from([None, "gzip", "br", "zstd", "x"]),
    st.sampled_from([None, "text/event-stream", "application/json"]),
    st.sampled_from([200, 204, 400, 529]),
)
def test_no_exchange_makes_it_raise(request_body, body, encoding, content_type, status):
    response = ResponseHead(
        status_code=status, content_type=content_type, content_encoding=encoding
    )
    make(body, response, request=request_body, head={"content_encoding": encoding})


@pytest.mark.parametrize(
    ("ttl", "components"),
    [
        ("1h", {"cache_write_5m": 60, "cache_write_1h": 40 + 30}),
        ("5m", {"cache_write_5m": 60 + 30, "cache_write_1h": 40}),
    ],
)
def test_cache_writes_that_are_counted_late_are_billed_as_the_request_asks(ttl, components):
    control = {"type": "ephemeral", "ttl": ttl}
    system = [{"type": "text", "text": "You are kind.", "cache_control": control}]
    split = {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40}
    used = {"input_tokens": 0, "output_tokens": 0}
    counts = {**used, "cache_creation_input_tokens": 100, "cache_creation": split}
    body = (
        event("message_start", message={"model": "claude-opus-5", "usage": counts})
        + event(
            "message_delta",
            delta={"stop_reason": "end_turn"},
            usage={"cache_creation_input_tokens": 130},
        )
        + STOP
    )
    entry = make(body, request=json.dumps({"system": system, "messages": []}).encode())
    assert {item.component: item.quantity for item in entry.cost_items} == components


@needs_recorded
def test_recorded_exchanges_are_logged_as_they_must_be(subtests):
    for name, case in CASES.items():
        expected = load_expected(name)
        if expected["logged"]:
            with subtests.test(name):
                check_recording(name, case, expected)


def check_recording(name, case, expected):
    body = (RECORDED / case["response_file"]).read_bytes()
    request = RECORDED / f"{name}.request.json"
    response = ResponseHead(status_code=case["status"], content_type=case["content_type"])
    entry = make(body, response, request=request.read_bytes() if request.exists() else b"")
    compressed = RECORDED / f"{case['response_file']}.gz"
    if compressed.exists():
        wire = replace(response, content_encoding="gzip")
        assert make(compressed.read_bytes(), wire).response_body == body

    assert entry.model in (expected["model"], *expected.get("model_alternatives", ()))
    for column in token_counts.NAMES:
        assert (getattr(entry.tokens, column) or 0) == (expected[column] or 0), column
    assert (entry.status_code, entry.streamed) == (expected["status"], expected["streaming"])
    assert entry.response_body == body
    is_error = expected["status"] >= 400
    assert entry.outcome == ("upstream_error" if is_error else "complete")
    assert entry.usage_source == ("none" if is_error else "final")
    assert (entry.error_type is not None) == is_error
    assert entry.cost_cents is not None
    assert not is_error or entry.cost_cents == 0


@needs_recorded
def test_recorded_exchanges_cost_the_same_when_they_are_priced_again(tmp_path):
    entries = []
    for number, case in enumerate(CASES.values()):
        response = ResponseHead(status_code=case["status"], content_type=case["content_type"])
        body = (RECORDED / case["response_file"]).read_bytes()
        entries.append(make(body, response, head={"entry_id": str(number)}))
    with TraceDatabase(tmp_path / "traces.db") as traces:
        traces.insert(entries)
        costs = [price_call(stored.call, PRICES) for stored in traces.iter_costs()]
    assert costs == [(entry.cost_items, entry.cost_cents) for entry in entries]


@needs_recorded
@pytest.mark.parametrize(
    ("name", "cents"),
    [
        # Refused before any output for `cyber`: nothing of 20 x 5.
        ("sdkpy_refusal", Decimal(0)),
        # Refused after output began, fable-5: 28 x 10 + 106 x 50 = 5,580.
        ("sdkpy_a_refusal", Decimal("0.558")),
        ("sdkpy_a_toolrefusal", Decimal("0.558")),
        # Fallbacks. sonnet-4-5: 25 x 3 + 8 x 15 = 195. opus-4-8: 31 x 5 + 547 x 25 = 13,830, and
        # 412 x 5 + 264 x 25 = 8,660 without what fable-5 declined, 408 x 10.
        ("sdkpy_fallback", Decimal("0.0195")),
        ("sdkpy_fallback_credit", Decimal("0.0195")),
        ("sdkpy_b_fallback", Decimal("1.383")),
        ("vercel_fallback", Decimal("0.866")),
        ("vercel_fallback_stream", Decimal("0.866")),
        # Advice. sonnet-5: (1128 + 1283) x 2 + (135 + 10) x 10 = 6,272, opus-4-8: 2543 x 5 + 18 x 25
        # = 13,165. sonnet-4-6: (1051 + 1363) x 3 + (35 + 3165) x 15 = 55,242, opus-4-7: 2728 x 5 +
        # 874 x 25 = 35,490.
        ("pyd_advisor_stream", Decimal("1.9437")),
        ("vercel_advisor", Decimal("9.0732")),
        # Compaction. sonnet-4-6: (100 + 181) x 3 + 55096 x 0.3 + (83 + 8) x 15 = 18,736.8. opus-4-6:
        # (60385 + 682) x 5 + (592 + 1320) x 25 = 353,135, (60385 + 612) x 5 + (522 + 2819) x 25
        # = 388,510.
        ("pyd_compaction_cache_stream", Decimal("1.87368")),
        ("vercel_compaction", Decimal("35.3135")),
        ("vercel_compaction_stream", Decimal("38.851")),
        # sonnet-5: 6 x 2 + 3337 x 2.5 + 6289 x 0.2 + 198 x 10 = 11,592.3.
        ("vercel_codeexec_cache", Decimal("1.15923")),
        # opus-4-1: 10423 x 15 + 341 x 75 = 181,920, and a search for a cent.
        ("llm_web_search", Decimal("19.192")),
        # A sum of a dozen prompts, none of them long, and ten searches. sonnet-4-5: 404500 x 3 + 943 x 15
        # = 1,227,645.
        ("pyd_pause_turn_stream", Decimal("132.7645")),
    ],
)
def test_recorded_exchanges_cost_what_their_parts_cost(name, cents):
    """Worked out by hand: tokens x US dollars per million / 10,000."""
    case = CASES[name]
    response = ResponseHead(status_code=200, content_type=case["content_type"])
    entry = make((RECORDED / case["response_file"]).read_bytes(), response)
    assert entry.cost_cents == cents


TEXT = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x" * 740})


@pytest.mark.parametrize(
    ("outcome", "body"),
    [
        ("client_disconnected", START + TEXT),
        ("upstream_interrupted", START + TEXT),
        ("proxy_restarted", START + TEXT),
        ("complete", START + TEXT + ERROR),
    ],
)
def test_the_output_of_a_cut_stream_is_estimated_and_its_line_is_marked(outcome, body):
    entry = make(body, outcome=outcome)
    assert (entry.usage_source, entry.tokens.output_tokens) == ("estimated", 200)
    assert [(item.component, item.quantity, item.estimated) for item in entry.cost_items] == [
        ("input", 10, False),
        ("output", 200, True),
    ]
    assert entry.estimated_cents == entry.cost_items[1].cents == Decimal("0.5")


def test_a_cut_stream_of_which_a_part_was_lost_has_the_counts_of_upstream():
    entry = make(START + TEXT, outcome="client_disconnected", ending={"response_lost": True})
    assert (entry.usage_source, entry.tokens.output_tokens) == ("partial", 1)
    assert (entry.estimated_cents, entry.cost_items[1].estimated) == (None, False)


def test_counts_at_the_end_of_a_cut_stream_are_not_replaced():
    entry = make(START + TEXT + DELTA, outcome="client_disconnected")
    assert (entry.usage_source, entry.tokens.output_tokens) == ("partial", 20)


def test_an_estimate_that_leaves_out_hidden_thinking_says_so():
    block = {"type": "redacted_thinking", "data": "x"}
    hidden = event("content_block_start", index=0, content_block=block)
    entry = make(START + hidden + TEXT, outcome="client_disconnected")
    assert entry.cost_items[1].note == "hidden_thinking"


def test_the_passes_that_counts_leave_out_are_not_estimated():
    usage = {
        "input_tokens": 10,
        "output_tokens": 1,
        "iterations": [
            {"type": "compaction", "input_tokens": 50, "output_tokens": 5},
            {"type": "message", "input_tokens": 10, "output_tokens": 1},
        ],
    }
    start = event("message_start", message={"model": "claude-opus-5", "usage": usage})
    entry = make(start + TEXT, outcome="client_disconnected")
    outputs = [item for item in entry.cost_items if item.component == "output"]
    assert [(item.quantity, item.estimated) for item in outputs] == [(5, False), (200, True)]
