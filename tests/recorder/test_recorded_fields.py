"""The fields beside tokens and cost of exchanges that were recorded with the real API.

What they should be is read here in a way of its own: line by line, from parsed documents.
"""

import json
from dataclasses import replace

import pytest

from addon.head_metadata import RequestMetadata, ResponseMetadata
from addon.headers import index
from metering.prices import PriceTable
from recorder.record import make_entry
from recorder.requests import RequestReader
from store.spool.format import Ending, SpooledExchange
from tests.addon.endpoints import ENDPOINT
from tests.addon.spooling import ARRIVED_AT
from tests.recorded import CASES, RECORDED, needs_recorded

PRICES = PriceTable()
NAMES = tuple(name for name, case in CASES.items() if case["request"]["target"] == "/v1/messages")


def index_fields(headers):
    return index(tuple((name.encode(), value.encode()) for name, value in headers))


def read_files(name):
    request = RECORDED / f"{name}.request.json"
    response = (RECORDED / CASES[name]["response_file"]).read_bytes()
    return request.read_bytes() if request.exists() else b"{}", response


def record(name, metadata_only=False):
    """Return the entry of a case, through the heads that the proxy writes."""
    case = CASES[name]
    request, response = read_files(name)
    sent = [each for each in case["request"]["headers"] if each[0].lower() != "x-api-key"]
    fields = index_fields([*sent, ("authorization", "Bearer sk-ant-oat01-x")])
    endpoint = replace(ENDPOINT, metadata_only=metadata_only)
    head = RequestMetadata(b"key", "anthropic").make_head(
        endpoint, ARRIVED_AT, fields, request, "/v1/messages", None, is_kept=not metadata_only
    )
    headers = (*case["response_headers"], ("content-type", case["content_type"]))
    exchange = SpooledExchange(
        head=head,
        request_body=None if metadata_only else request,
        response=ResponseMetadata("anthropic").make_head(case["status"], index_fields(headers)),
        ttfb_ms=100.0,
        response_body=response,
        last_byte_ms=1_100.0,
        ending=Ending(outcome="complete", duration_ms=1_100.0, response_bytes=len(response)),
    )
    return make_entry(exchange, PRICES, RequestReader())


def list_messages(response):
    """Return everything in a response that may say how it ended or what it used, in order."""
    if response.lstrip().startswith(b"{"):
        return [json.loads(response)]
    events = [json.loads(line[5:]) for line in response.splitlines() if line.startswith(b"data:")]
    found = []
    for event in events:
        if event["type"] == "message_start":
            found.append(event["message"])
        elif event["type"] == "message_delta":
            found.append(event["delta"] | {"usage": event.get("usage")})
    return found


def find_last(messages, *path):
    last = None
    for message in messages:
        value = message
        for name in path:
            value = (value or {}).get(name)
        last = last if value is None else value
    return last


def find_ttls(value):
    if isinstance(value, list):
        return {ttl for each in value for ttl in find_ttls(each)}
    if not isinstance(value, dict):
        return set()
    own = value.get("cache_control")
    ttls = {own.get("ttl", "5m")} if isinstance(own, dict) else set()
    return ttls.union(*map(find_ttls, value.values()))


@needs_recorded
@pytest.mark.parametrize("metadata_only", [False, True])
def test_recorded_exchanges_say_what_they_say(subtests, metadata_only):
    for name in NAMES:
        with subtests.test(name):
            check(name, record(name, metadata_only), metadata_only)


def check(name, entry, metadata_only):
    request, response = read_files(name)
    messages, asked = list_messages(response), json.loads(request)
    assert entry.stop_reason == find_last(messages, "stop_reason")
    assert entry.refusal_category == find_last(messages, "stop_details", "category")
    thinking = find_last(messages, "usage", "output_tokens_details", "thinking_tokens")
    searches = find_last(messages, "usage", "server_tool_use", "web_search_requests")
    assert (entry.thinking_tokens, entry.web_search_requests) == (thinking, searches)
    assert entry.max_tokens == asked.get("max_tokens")
    assert entry.effort == (asked.get("output_config") or {}).get("effort")
    assert entry.thinking_budget == (asked.get("thinking") or {}).get("budget_tokens")
    assert entry.cache_ttl == max(find_ttls(asked), default=None, key=["5m", "1h"].index)
    if "messages" in asked:
        assert entry.message_count == len(asked["messages"])
        assert entry.tool_count == len(asked.get("tools", ()))
        assert (entry.title_text is None) == metadata_only
    if entry.streamed and entry.usage_source == "final":
        assert (entry.output_tokens_per_s or 0) == entry.tokens.output_tokens
    headers = {key.lower(): value for key, value in CASES[name]["response_headers"]}
    limits = entry.rate_limits
    for kind in ("requests", "tokens", "input-tokens", "output-tokens"):
        column = kind.replace("-", "_")
        for part in ("limit", "remaining", "reset"):
            value = headers.get(f"anthropic-ratelimit-{kind}-{part}")
            suffix = "reset_at" if part == "reset" else part
            stored = limits and getattr(limits, f"{column}_{suffix}")
            assert (None if stored is None else str(stored)) == value
    is_per_minute = "anthropic-ratelimit-requests-limit" in headers
    assert entry.billing == ("api_key" if is_per_minute else "subscription")
    assert entry.upstream_organization_id == headers.get("anthropic-organization-id")
    assert entry.workspace_id == headers.get("anthropic-workspace-id")
