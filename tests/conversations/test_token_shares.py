"""Tokens of the parts of a prompt: they add up to the bill, stretch by stretch."""

from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from conversations.cache_rules import ModelRules
from conversations.prompt_bill import read_prompt_bill
from conversations.summaries import PromptTokens
from conversations.token_shares import PARTS, share_tokens
from conversations.units import read_prompt
from conversations.xray import list_spans
from metering.usage import read_usage
from tests.conversations.bills import bill_of
from tests.conversations.sessions import (
    HOUR,
    LONG,
    MARKER,
    MODEL,
    UNMARKED,
    assistant,
    conversation,
    request,
    text,
    tool,
    user,
)
from tests.conversations.test_xray import ODD
from tests.conversations.upstream_cache import UpstreamCache
from tests.recorded import CASES, RECORDED, needs_recorded
from wire.json_reading import parse_object
from wire.request import Request

KEEPS = ModelRules(keeps_thinking=True)


def share(body, rules=KEEPS, model=MODEL, **counts):
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    prompt = read_prompt(Request(parse_object(raw) or {}))
    return share_tokens(raw, list_spans(raw), prompt, PromptTokens(**counts), model, rules)


def bill(counts):
    """Return the counts of the upstream of the tests as parts of a bill."""
    return {
        "read": counts["cache_read_input_tokens"],
        "written_1h": counts["ephemeral_1h_input_tokens"],
        "written_5m": counts["ephemeral_5m_input_tokens"],
        "uncached": counts["input_tokens"],
    }


def by_part(found):
    """Return the spans of each part, by the messages that they are in; tools and system are -1."""
    places: dict[Any, set[int]] = {part: set() for part in PARTS}
    for each in found.shares:
        if each.span.category != "envelope":
            places[each.part].add(-1 if each.span.message is None else each.span.message)
    return {part: sorted(messages) for part, messages in places.items() if messages}


def check_sums(found, counts):
    for part in PARTS:
        shared = sum(each.tokens for each in found.shares if each.part == part)
        assert shared + found.added.get(part, 0) == counts[part], part
    assert all(each.tokens >= 0 for each in found.shares)


def test_the_first_call_writes_all_and_the_next_reads_what_was_written():
    upstream, first, second = UpstreamCache(), request(*conversation(2)), request(*conversation(3))
    counts = bill(upstream.count(first, 0))
    assert by_part(share(first, **counts)) == {"written_5m": [-1, 0, 1, 2]}
    counts = bill(upstream.count(second, 10))
    found = share(second, **counts)
    assert by_part(found) == {"read": [-1, 0, 1, 2], "written_5m": [3, 4]}
    check_sums(found, counts)
    assert not found.is_end_of_read_known  # no marker of this request stands there


def test_a_marker_where_the_prefix_ended_says_so():
    upstream, body = UpstreamCache(), request(*conversation(2))
    upstream.count(body, 0)
    longer = request(*conversation(3))
    longer["messages"][2]["content"][0]["cache_control"] = MARKER  # as Claude Code leaves it
    counts = bill(upstream.count(longer, 10))
    found = share(longer, **counts)
    assert found.is_end_of_read_known
    assert by_part(found) == {"read": [-1, 0, 1, 2], "written_5m": [3, 4]}


def test_what_comes_after_the_last_marker_is_uncached():
    body = {
        "tools": [tool("Read")],
        "system": [text(LONG, MARKER)],
        "messages": [user(text("a b c " * 50))],
    }
    found = share(body, read=4_800, uncached=80)
    assert by_part(found) == {"read": [-1], "uncached": [0]}
    assert [each.tokens for each in found.shares if each.span.category == "user_text"] == [80]


def test_an_hour_comes_before_five_minutes():
    body = {
        "system": [text(LONG, HOUR)],
        "messages": [user(text("a " * 2_000)), user(text("b " * 2_000, MARKER))],
    }
    counts = {"read": 0, "written_1h": 4_700, "written_5m": 2_000, "uncached": 0}
    found = share(body, **counts)
    assert by_part(found) == {"written_1h": [-1], "written_5m": [0, 1]}
    check_sums(found, counts)


def test_the_order_of_the_prompt_decides_and_not_that_of_the_body():
    body = {
        "messages": [user(text("a " * 200))],
        "system": [text(LONG, MARKER)],
        "tools": [tool("Read")],
    }
    assert by_part(share(body, read=4_800, uncached=100)) == {"read": [-1], "uncached": [0]}


def test_without_a_marker_where_the_cache_ends_is_estimated():
    body = {**UNMARKED, "messages": [user(text("a " * 8_000))]}
    found = share(body, read=4_700, uncached=4_000)
    assert by_part(found) == {"read": [-1], "uncached": [0]}
    assert not found.is_end_of_read_known


def test_what_the_model_does_not_read_has_no_tokens():
    body = {
        "tools": [tool("Read"), tool("Late") | {"defer_loading": True}],
        "system": [text("x-anthropic-billing-header: a"), text("Be brief.")],
        "messages": [
            user(text("One")),
            assistant({"type": "thinking", "thinking": "old " * 90, "signature": "x" * 900}),
            user(text("Two")),
            assistant({"type": "thinking", "thinking": "new " * 90, "signature": "x" * 900}),
            user({"type": "tool_result", "tool_use_id": "t", "content": "r"}),
        ],
    }
    found = share(body, ModelRules(keeps_thinking=False), uncached=2_000)
    tokens = {(s.span.category, s.span.message): s.tokens for s in found.shares}
    assert tokens["deferred_tool", None] == tokens["attribution", None] == 0
    assert tokens["thinking", 1] == 0  # dropped by upstream, for the user spoke again
    assert tokens["thinking", 3] > 0
    assert tokens["envelope", None] == 0
    assert share(body, uncached=2_000).tokens == 2_000


def test_the_prompt_for_tools_is_added_where_it_is_known():
    body = {"tools": [tool("Read")], "messages": [user(text("a"))]}
    assert share(body, uncached=600).added["uncached"] > 400
    assert share(body, model="claude-opus-5-5", uncached=600).added == {}
    forced = share(body | {"tool_choice": {"type": "any"}}, uncached=600)
    assert forced.added["uncached"] > share(body, uncached=600).added["uncached"]


@pytest.mark.parametrize(("tokens", "is_rough"), [(300, True), (1_000, False), (3_000, True)])
def test_an_estimate_far_from_the_count_is_rough(tokens, is_rough):
    found = share({"messages": [user(text("word" * 1_000))]}, uncached=tokens)
    assert found.stretches[0].scale == pytest.approx(tokens / 1_000)
    assert found.rough_tokens == (tokens if is_rough else 0)


@given(
    st.lists(ODD, max_size=4),
    st.lists(ODD, max_size=2),
    st.tuples(*[st.integers(0, 9_999)] * 4),
    st.sets(st.integers(0, 4)),
)
def test_tokens_of_any_request_add_up_to_the_bill(blocks, tools, numbers, marked):
    messages = [*conversation(2), {"role": "user", "content": blocks}]
    for place in marked & {0, 1, 2}:
        messages[place]["content"][-1]["cache_control"] = HOUR if place % 2 else MARKER
    counts = dict(zip(PARTS, numbers, strict=True))
    check_sums(share({"tools": tools, "messages": messages, "system": blocks}, **counts), counts)


@needs_recorded
def test_tokens_of_recorded_calls_add_up_to_what_upstream_billed():
    seen = rough = 0
    for name, case in CASES.items():
        path = RECORDED / f"{name}.request.json"
        if case["status"] != 200 or not path.exists():
            continue
        body = path.read_bytes()
        response = (RECORDED / case["response_file"]).read_bytes()
        usage = read_usage(200, case["content_type"], response, is_complete=True)
        found_bill = read_prompt_bill(bill_of(usage))
        found = share(body, model=usage.model, **found_bill.tokens._asdict())
        check_sums(found, found_bill.tokens._asdict())
        assert sum(each.span.size for each in found.shares) == len(body), name
        seen += 1
        rough += found.rough_tokens * 2 > found.tokens
    assert seen > 25
    assert rough < seen
