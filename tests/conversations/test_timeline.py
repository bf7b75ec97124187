"""The context of a conversation turn by turn."""

from dataclasses import replace

import orjson
import pytest

from conversations.cache_rules import ModelRules
from conversations.context import read_context
from conversations.prompt_bill import PromptBill
from conversations.summaries import PromptTokens
from conversations.timeline import Timeline
from tests.conversations.savings.calls import PRICES, make_call
from tests.conversations.sessions import conversation, request
from tests.conversations.upstream_cache import UpstreamCache

MODEL = "claude-opus-5-5"  # whose prompt for tools is not known, so that spans have all tokens


def make(turns):
    """Return the calls of a conversation that grew by two messages a turn, and its last request."""
    upstream, calls, body = UpstreamCache(), [], b""
    for number in range(1, turns + 1):
        sent = request(*conversation(number))
        counts, body = upstream.count(sent, number * 60), orjson.dumps(sent)
        calls.append(
            make_call(
                number,
                number,
                read=counts["cache_read_input_tokens"],
                written_5m=counts["ephemeral_5m_input_tokens"],
                uncached=counts["input_tokens"],
                request_length=len(body),
            )
        )
    return calls, body


def timeline_of(calls, body):
    bill = PromptBill(tokens=calls[-1].tokens, cents={})
    return Timeline(read_context(body, bill, MODEL, ModelRules()), len(body))


def cost(call):
    return float(sum(call.count(part) * PRICES[part] for part in PromptTokens._fields))


def test_tokens_and_costs_of_each_turn_are_what_was_billed():
    calls, body = make(6)
    timeline = timeline_of(calls, body)
    for call in calls:
        assert timeline.is_alike(call)
        turn = timeline.make_turn(call, is_alike=True)
        assert sum(turn.tokens.values()) == pytest.approx(call.tokens.total)
        assert sum(turn.cents.values()) == pytest.approx(cost(call))


def test_messages_grow_and_the_front_stays():
    calls, body = make(6)
    turns = [timeline_of(calls, body).make_turn(call, is_alike=True) for call in calls]
    said = [turn.tokens["user_text"] for turn in turns]
    assert said == sorted(said)
    assert said[0] < said[-1] / 2
    assert "assistant_text" not in turns[0].tokens
    system = [turn.tokens["system"] for turn in turns]
    assert max(system) == pytest.approx(min(system), rel=0.1)


def test_an_item_is_carried_by_the_calls_that_had_it():
    calls, body = make(5)
    timeline = timeline_of(calls, body)
    items = timeline.list_items(calls, 50, {call.id: timeline.tools for call in calls})
    by_message = {item.share.span.message: item for item in items}
    assert by_message[None].calls == 5
    assert (by_message[2].first.id, by_message[2].calls) == (2, 4)
    assert (by_message[8].first.id, by_message[8].calls) == (5, 1)
    total = sum(item.cents for item in items)
    assert total == pytest.approx(sum(cost(call) for call in calls), rel=0.03)


def test_a_body_of_another_length_is_not_the_beginning_of_this_one():
    calls, body = make(4)
    timeline = timeline_of(calls, body)
    other = make_call(9, 9, message_count=3, uncached=50, request_length=len(body) * 3)
    assert not timeline.is_alike(other)
    assert timeline.predict_length(3) == pytest.approx(calls[1].request_length, rel=0.02)


def test_a_price_that_is_not_known_leaves_the_cost_open():
    calls, body = make(3)
    unpriced = make_call(3, 3, read=5_000, prices={})
    timeline = timeline_of(calls, body)
    assert timeline.make_turn(unpriced, is_alike=True).cents is None
    assert timeline.list_items([unpriced], 1, {3: timeline.tools})[0].cents is None


def test_turn_with_other_tools_is_not_alike_and_does_not_carry_them():
    calls, body = make(4)
    sent = orjson.loads(body) | {"tools": [{"name": f"tool {n}"} for n in range(3)]}
    body = orjson.dumps(sent)
    calls = [replace(call, tool_count=3 if call.id > 2 else 2) for call in calls]
    context = read_context(body, PromptBill(tokens=calls[-1].tokens, cents={}), MODEL, ModelRules())
    timeline = Timeline(context, len(body), 3)
    assert [timeline.is_alike(call) for call in calls] == [False, False, True, True]
    tools = {call.id: timeline.tools if call.id > 2 else {"tool 0"} for call in calls}
    items = timeline.list_items(calls, 100, tools)
    carried = {item.share.span.name: (item.first.id, item.calls) for item in items}
    assert [carried[f"tool {n}"] for n in range(3)] == [(1, 4), (3, 2), (3, 2)]
