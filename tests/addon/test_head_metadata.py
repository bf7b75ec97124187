import json
from dataclasses import replace

import pytest

from addon import headers
from addon.head_metadata import RequestMetadata, ResponseMetadata
from metering.limit_windows import fingerprint_account
from metering.request_facts import RequestFacts
from metering.tool_results import FAILED, LastResults, ToolResult, UseResult
from store.spool import reader
from store.spool.format import Ending, ResponseHead
from tests.addon.endpoints import ENDPOINT
from tests.addon.spooling import ARRIVED_AT, read_all

OF_RESPONSES = ResponseMetadata("acme")


@pytest.fixture
def spooled(spooler, open_capture, tmp_path):
    """Captures a request; returns the exchange as the recorder reads it, and the bytes of its file."""

    def capture(*body, **parts):
        open_capture(spooler, *body, **parts).finish(Ending(outcome="complete"), 1.0)
        (waiting,) = reader.find_waiting(tmp_path / "spool")
        return reader.read_exchange(waiting.path), waiting.path.read_bytes()

    return capture


def test_what_is_kept_of_a_request_is_named_and_holds_no_credential(spooled):
    fields = (
        (b"X-Api-Key", b"sk-ant-secret"),
        (b"User-Agent", b"claude-cli/2.1"),
        (b"x-claude-code-session-id", b"session"),
        (b"cookie", b"also-secret"),
    )
    exchange, raw = spooled(fields=fields)
    assert b"secret" not in raw
    assert (exchange.head.user_agent, exchange.head.session_id) == ("claude-cli/2.1", "session")
    assert exchange.head.created_at == "2026-01-02T03:04:05.678Z"
    assert len(exchange.head.credential_hmac or "") == 32


def test_what_it_takes_to_send_a_request_again_is_kept(spooled):
    fields = (
        (b"Acme-Version", b"2026-10-21"),
        (b"acme-beta", b"a-2025"),
        (b"Acme-Beta", b"b-2026,c"),
        (b"anthropic-version", b"of another vendor"),
    )
    target = "/v1/messages?beta=true&api_key=not-to-be-seen"
    exchange, raw = spooled(fields=fields, target=target)
    assert exchange.head.path_query == "/v1/messages?beta=true&api_key=REDACTED"
    assert (exchange.head.api_version, exchange.head.betas) == ("2026-10-21", "a-2025,b-2026,c")
    assert b"not-to-be-seen" not in raw


CREDENTIALS = [
    "sk-ant-api03-secret",
    "x sk-ant-oat01-secret y",
    "SK-ANT-secret",
    "Bearer secret",
    "a,bearer  secret",
    "sk_secret" + "a" * 37,
]


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize(
    ("header", "column"),
    [
        ("user-agent", "user_agent"),
        ("x-claude-code-session-id", "session_id"),
        ("x-claude-code-agent-id", "agent_id"),
        ("x-stainless-retry-count", "retry_count"),
        ("acme-version", "api_version"),
        ("acme-beta", "betas"),
        ("content-encoding", "content_encoding"),
        ("acme-workspace-id", "workspace_id"),
        ("x-claude-code-prompt-id", "client_hints"),
        ("session-id", "client_hints"),
    ],
)
def test_a_header_that_holds_a_credential_is_not_stored(spooled, header, column, credential):
    fields = ((header.encode(), credential.encode()), (b"accept", b"*/*"))
    exchange, raw = spooled(fields=fields)
    assert b"secret" not in raw
    assert getattr(exchange.head, column) is None


def test_a_credential_in_a_second_beta_header_is_not_stored(spooled):
    fields = ((b"acme-beta", b"a-2025"), (b"acme-beta", b"sk-ant-secret"))
    exchange, _ = spooled(fields=fields)
    assert exchange.head.betas is None


def test_a_run_id_that_is_a_credential_is_not_stored():
    metadata = RequestMetadata(b"key", "acme")
    for run_id, kept in (("sk-ant-secret", None), ("nightly-sk.1", "nightly-sk.1")):
        head = metadata.make_head(
            ENDPOINT, ARRIVED_AT, {}, b"{}", "/v1/messages", run_id, is_kept=True
        )
        assert head.run_id == kept


def test_names_in_a_body_that_is_not_kept_hold_no_credential(spooled):
    endpoint = replace(ENDPOINT, metadata_only=True)
    user_id = json.dumps({"session_id": "sk-ant-secret"})
    secret = "sk-ant-secret"
    fields = {"model": secret, "output_config": {"effort": secret}}
    body = json.dumps({**fields, "metadata": {"user_id": user_id}}).encode()
    _, raw = spooled(body, endpoint=endpoint)
    assert b"secret" not in raw


def test_whom_a_call_belongs_to_is_kept_and_of_its_credential_only_the_kind(spooled):
    fields = (
        (b"Authorization", b"Bearer sk-ant-oat01-secret"),
        (b"Acme-Workspace-Id", b"wrkspc_1"),
        (b"Acme-User-Profile-Id", b"uprof_1"),
        (b"X-Claude-Code-Request-Class", b"main"),
        (b"x-claude-code-unheard-of", b"1"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    )
    exchange, raw = spooled(fields=fields)
    assert b"secret" not in raw
    assert (exchange.head.credential_kind, exchange.head.workspace_id) == ("token", "wrkspc_1")
    assert exchange.head.user_profile_id == "uprof_1"
    assert exchange.head.client_hints == {
        "x-claude-code-request-class": "main",
        "trace-id": "0af7651916cd43dd8448eb211c80319c",
    }


def test_no_header_of_an_endpoint_without_bodies_brings_text_into_the_spool(
    spooler, open_capture, tmp_path
):
    """A spool file that is set aside stays, so the recorder is too late to drop it."""
    text = b"private words"
    names = (
        b"x-claude-code-session-id",
        b"x-claude-code-agent-id",
        b"x-stainless-retry-count",
        b"content-encoding",
        b"acme-version",
        b"acme-workspace-id",
        b"acme-user-profile-id",
        b"x-session-id",
    )
    fields = (
        *((name, text) for name in names),
        (b"acme-beta", b"beta-1, private words,beta-2"),
        (b"x-claude-code-prompt-id", b"prompt-1"),
        (b"x-claude-code-agent-type", b"Explore"),
        (b"x-litellm-tags", b"private"),
        (b"x-claude-code-prev-tool-durations", b"private_tool=5"),
        (b"x-litellm-customer-id", b"private"),
        (b"x-taximeter-user", b"private words"),
    )
    for endpoint in (ENDPOINT, replace(ENDPOINT, metadata_only=True)):
        capture = open_capture(spooler, fields=fields, endpoint=endpoint)
        capture.finish(Ending(outcome="complete"), 1.0)
    files = [waiting.path.read_bytes() for waiting in reader.find_waiting(tmp_path / "spool")]
    assert sorted(data.count(b"private") for data in files) == [0, 12]
    (head,) = [each.head for each in read_all(tmp_path / "spool") if each.head.metadata_only]
    assert head.betas == "beta-1,beta-2"
    assert head.client_hints == {
        "x-claude-code-prompt-id": "prompt-1",
        "x-claude-code-agent-type": "Explore",
    }


@pytest.mark.parametrize("metadata_only", [False, True])
def test_user_project_and_tags_are_kept_without_what_breaks_a_rule(spooled, metadata_only):
    fields = (
        (b"X-Taximeter-User", b"ann@example.com"),
        (b"x-taximeter-project", b"sk-ant-secret"),
        (b"x-taximeter-tags", b"Env:Prod,two words,sk-ant-oat"),
        (b"X-TAXIMETER-TAGS", b"nightly, env:prod"),
    )
    endpoint = replace(ENDPOINT, metadata_only=metadata_only)
    exchange, raw = spooled(fields=fields, endpoint=endpoint)
    assert b"sk-ant" not in raw
    head = exchange.head
    assert (head.attributed_user, head.project) == ("ann@example.com", None)
    assert (head.tags, head.attributes_left_out) == ('["env:prod","nightly"]', 3)


def test_the_headers_of_litellm_are_read_where_text_is_kept(spooler, open_capture, tmp_path):
    fields = ((b"x-litellm-tags", b"Nightly"), (b"x-litellm-end-user-id", b"ann"))
    for endpoint in (ENDPOINT, replace(ENDPOINT, metadata_only=True)):
        capture = open_capture(spooler, fields=fields, endpoint=endpoint)
        capture.finish(Ending(outcome="complete"), 1.0)
    heads = {each.head.metadata_only: each.head for each in read_all(tmp_path / "spool")}
    assert (heads[False].attributed_user, heads[False].tags) == ("ann", '["nightly"]')
    assert (heads[True].attributed_user, heads[True].tags) == (None, None)


TEXT_AND_NUMBERS = {
    "model": "claude-x",
    "max_tokens": 100,
    "thinking": {"type": "enabled", "budget_tokens": 8000},
    "output_config": {"effort": "low"},
    "cache_control": {"type": "ephemeral"},
    "stream": True,
    "system": "private text",
    "metadata": {"user_id": "user_private_account_4711_session_5f3c"},
    "thread": {"type": "continue", "previous_message_id": "msg_1"},
    "billing_policy": {"type": "billing_policy", "bill_to": "user_profile"},
    "tools": [{"name": "private_tool"}],
    "messages": [{"role": "user", "content": "private text"}] * 3,
}


def test_where_bodies_are_not_kept_names_and_numbers_are(spooled):
    endpoint = replace(ENDPOINT, metadata_only=True)
    body = json.dumps(TEXT_AND_NUMBERS).encode()
    exchange, raw = spooled(body, endpoint=endpoint)
    assert b"private" not in raw
    assert b"4711" not in raw
    assert (exchange.head.request_model, exchange.head.session_id) == ("claude-x", "5f3c")
    assert exchange.head.account_hmac == fingerprint_account("4711", ENDPOINT.organization_id)
    assert exchange.head.facts == RequestFacts(
        model="claude-x",
        max_tokens=100,
        message_count=3,
        tool_count=1,
        effort="low",
        thinking_budget=8000,
        cache_ttl="5m",
        thread="continue",
        thread_previous_id="msg_1",
        bill_to="user_profile",
    )


def test_where_bodies_are_not_kept_results_of_tools_are_numbers(spooled):
    names = ("Read", "private tool")
    uses = [{"type": "tool_use", "id": f"private_{name}", "name": name} for name in names]
    results = [
        {"type": "tool_result", "tool_use_id": use["id"], "content": "private", "is_error": True}
        for use in uses
    ]
    messages = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
    body = json.dumps({"messages": messages}).encode()
    endpoint = replace(ENDPOINT, metadata_only=True)
    exchange, raw = spooled(body, endpoint=endpoint)
    assert b"private" not in raw
    failed = ToolResult(2, FAILED)
    found = LastResults(0, [UseResult(0, "Read", failed), UseResult(1, None, failed)])
    assert exchange.head.facts.tool_results == found


@pytest.mark.parametrize("text", ["private text", "private" * 15, "private\n", "private:\u00e9"])
def test_where_bodies_are_not_kept_text_is_no_name(spooled, text):
    endpoint = replace(ENDPOINT, metadata_only=True)
    user_id = json.dumps({"session_id": text})
    request = {"model": text, "max_tokens": 5, "metadata": {"user_id": user_id}}
    request["thread"] = {"type": text, "previous_message_id": text}
    request["billing_policy"] = {"bill_to": text}
    body = json.dumps(request | {"output_config": {"effort": text}}).encode()
    exchange, raw = spooled(body, endpoint=endpoint)
    assert b"private" not in raw
    assert exchange.head.facts == RequestFacts(max_tokens=5)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (b"", ()),
        (b"not JSON", ()),
        (b'{"model":', ()),
        (b"\x1f\x8b", ()),
        (b'{"model":"m"}', ((b"content-encoding", b"gzip"),)),
        (b"[" * 100_000, ()),
        (b'{"model":"m","a":[' + b"{}," * 200_000 + b"{}]}", ()),
    ],
)
def test_a_body_that_cannot_be_read_costs_the_fields_and_not_the_call(spooled, body, fields):
    endpoint = replace(ENDPOINT, metadata_only=True)
    exchange, _ = spooled(body, fields, endpoint)
    assert exchange.head.facts == RequestFacts()
    assert exchange.head.request_bytes == len(body)


def test_a_request_too_large_to_be_held_has_no_body_and_no_size(spooled):
    exchange, _ = spooled(body=None)
    assert exchange.request_body is None
    assert exchange.head.request_bytes is None


def test_named_fields_of_a_response_are_kept_and_no_others():
    fields = (
        (b"Content-Type", b"text/event-stream"),
        (b"Request-Id", b"req_1"),
        (b"Acme-Organization-Id", b"org-1"),
        (b"acme-workspace-id", b"wrkspc_1"),
        (b"Acme-RateLimit-Requests-Limit", b"50"),
        (b"acme-ratelimit-unified-7d_oi-status", b"allowed"),
        (b"anthropic-ratelimit-requests-limit", b"of another vendor"),
        (b"Retry-After", b"7"),
        (b"set-cookie", b"secret"),
    )
    assert OF_RESPONSES.make_head(429, headers.index(fields)) == ResponseHead(
        status_code=429,
        content_type="text/event-stream",
        upstream_request_id="req_1",
        upstream_organization_id="org-1",
        workspace_id="wrkspc_1",
        rate_limits={
            "requests-limit": "50",
            "unified-7d_oi-status": "allowed",
            "retry-after": "7",
        },
    )


def test_what_is_kept_of_a_response_is_bounded():
    fields = tuple((b"acme-ratelimit-a%d" % number, b"1") for number in range(10_000))
    long = (b"acme-ratelimit-tokens-limit", b"9" * 10_000)
    found = headers.index((*fields, long, (b"acme-organization-id", b"x" * 10_000)))
    head = OF_RESPONSES.make_head(200, found)
    assert len(head.rate_limits or {}) < 50
    assert "tokens-limit" not in (head.rate_limits or {})
    assert head.upstream_organization_id == "x" * 200
