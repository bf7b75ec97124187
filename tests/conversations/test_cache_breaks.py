"""Tests of whether a cache broke and what it cost; its causes are in ``test_causes.py``."""

import copy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from conversations.cache_breaks import METHOD
from conversations.diagnosis import CacheReport
from conversations.predecessor import find_predecessor
from conversations.summaries import summarize_call, summarize_prompt
from conversations.units import read_prompt
from metering.token_counts import ZERO, TokenCounts
from metering.usage import Pass, Usage
from tests.conversations.sessions import (
    HOUR,
    LONG,
    MARKER,
    MODEL,
    Session,
    assistant,
    conversation,
    mark_last,
    request,
    text,
    tool,
    user,
)
from wire.request import Request

TOOLS = request(*conversation(1))["tools"]
DEFERRED = {"defer_loading": True}


def counts(read=0, written=0, uncached=10, **more):
    return {
        "input_tokens": uncached,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
    } | more


def test_ten_thousand_tokens_written_again_cost_what_the_notes_say():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_044))
    found = session.send(
        request(*conversation(3, "An American ship. ")), counts=counts(read=10_000, written=10_500)
    )
    assert (found.tokens, found.prefix_tokens, found.read_tokens) == (10_044, 20_044, 10_000)
    assert round(found.extra_cost_cents / 100, 4) == Decimal("0.0347")
    assert found.extra_cost_cents == Decimal(10_044) * (Decimal("3.75") - Decimal("0.30")) / 10_000
    assert (found.method, found.is_estimated, found.found_by) == (METHOD, False, "overlap")


def test_an_hour_costs_more_and_comes_first_then_five_minutes_then_what_was_uncached():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    split = {"ephemeral_1h_input_tokens": 3_000, "ephemeral_5m_input_tokens": 2_000}
    found = session.send(
        request(*conversation(3)), counts=counts(written=5_000, uncached=16_000, **split)
    )
    assert found.tokens == 20_000
    dearer = 3_000 * Decimal("5.7") + 2_000 * Decimal("3.45") + 15_000 * Decimal("2.7")
    assert found.extra_cost_cents == dearer / 10_000


def test_the_price_has_the_multipliers_of_the_call():
    session = Session()
    model = "claude-sonnet-4-6"
    session.send(request(*conversation(2), model=model), counts=counts(written=20_000))
    found = session.send(
        request(*conversation(3), model=model),
        counts=counts(written=21_000, inference_geo="us"),
    )
    assert found.extra_cost_cents == 20_000 * Decimal("3.45") * Decimal("1.1") / 10_000


def test_a_model_without_a_price_has_tokens_and_no_cost():
    session = Session()
    session.send(request(*conversation(2), model="claude-new-9"), counts=counts(written=20_000))
    found = session.send(
        request(*conversation(3), model="claude-new-9"), counts=counts(written=21_000)
    )
    assert (found.tokens, found.extra_cost_cents) == (20_000, None)


@pytest.mark.parametrize(
    ("read", "is_break"), [(8_001, False), (8_000, True), (10_000, False), (12_000, False)]
)
def test_fewer_than_two_thousand_missed_tokens_are_no_break(read, is_break):
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=10_000))
    found = session.send(request(*conversation(3)), counts=counts(read=read, written=15_000 - read))
    assert (found is not None) == is_break


@pytest.mark.parametrize(("read", "is_break"), [(95_000, False), (94_999, True)])
def test_five_percent_of_a_long_prefix_are_no_break(read, is_break):
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=100_000))
    found = session.send(request(*conversation(3)), counts=counts(read=read, written=6_000))
    assert (found is not None) == is_break


def test_a_shorter_prompt_misses_no_more_than_it_has():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    fewer = request(*conversation(3), tools=[])
    found = session.send(fewer, counts=counts(read=4_000, written=3_000, uncached=10))
    assert (found.tokens, found.prefix_tokens, found.cause) == (3_010, 20_000, "tools")
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    assert session.send(fewer, counts=counts(read=4_000, written=1_900, uncached=10)) is None


def test_moving_the_marker_along_is_no_break():
    session = Session()
    found = [session.send(request(*conversation(turns))) for turns in range(1, 12)]
    assert found == [None] * 11
    assert all(call.summary.tokens.read > 5_000 for call in session.calls[1:])


def test_tools_and_system_texts_that_come_within_messages_are_no_change_of_the_prefix():
    addition = {"type": "tool_addition", "tools": [tool("Web")]}
    later = [*conversation(3), {"role": "system", "content": [text("Be quick."), addition]}]
    session = Session()
    session.send(request(*conversation(3)))
    assert session.send(request(*later, tools=[*TOOLS, tool("Late") | DEFERRED])) is None
    longer = request(*later, assistant(text("Yes.")), user(text("And?")))
    assert session.send(longer) is None
    assert session.calls[2].summary.tokens.read > 5_000


def test_a_text_and_a_list_with_one_text_block_are_the_same():
    session = Session()
    session.send(request(*conversation(2)))
    body = request(*conversation(3))
    body["messages"][0]["content"] = body["messages"][0]["content"][0]["text"]
    assert session.send(body, counts=counts(read=8_000, written=500)) is None
    first, second = (summarize_prompt(read_prompt(Request(call.request))) for call in session.calls)
    assert second.digests.startswith(first.digests)


def test_a_failed_call_between_two_good_ones_is_not_the_one_before():
    session = Session()
    session.send(request(*conversation(2)))
    other = request(*conversation(3, "An American ship. "))
    assert session.send(other, counts={}, answered_after_s=None) is None
    assert session.send(request(*conversation(3))) is None
    assert session.calls[2].summary.tokens.read > 5_000


def test_a_retry_reads_what_the_call_before_the_failure_left():
    session = Session()
    session.send(request(*conversation(2)))
    session.send(request(*conversation(3)), counts={}, answered_after_s=None)
    assert session.send(request(*conversation(3)), retry_count=1) is None
    assert session.send(request(*conversation(4), tools=[]), retry_count=1).cause == "tools"


def test_a_call_whose_client_left_is_one_that_the_same_request_reads():
    session = Session()
    session.send(request(*conversation(2)), outcome="client_disconnected", usage_source="partial")
    body = request(*conversation(2))
    assert session.send(body) is None
    assert session.calls[1].summary.tokens.written == 0
    broken = copy.deepcopy(body)
    broken["system"][0]["text"] = "Be verbose."
    assert session.send(broken, usage_source="partial").cause == "system"


def test_a_title_call_between_two_turns_is_no_turn():
    session = Session()
    session.send(request(*conversation(1)))
    title = {
        "model": "claude-haiku-4-5",
        "max_tokens": 100,
        "system": [text("Write a title. " * 2_000, MARKER)],
        "messages": [user(text("A British ship."))],
    }
    assert session.send(title) is None
    assert session.send(request(*conversation(2))) is None
    assert session.send(request(*conversation(3))) is None
    assert session.calls[2].summary.tokens.read > 5_000


def test_a_title_call_with_the_same_first_message_does_not_hide_a_break():
    session = Session()
    session.send(request(*conversation(1)))
    session.send({**request(*conversation(1)), "system": "Write a title.", "tools": []})
    broken = session.send(request(*conversation(2), tools=[tool("Read")]))
    assert broken.predecessor_entry_id == session.calls[0].entry.entry_id
    assert broken.cause == "tools"


@pytest.mark.parametrize("fields", [{"request_class": "auxiliary"}, {"max_tokens": 1}])
def test_side_calls_and_probes_neither_break_nor_precede(fields):
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    body = request(*conversation(3))
    assert session.send(body, counts=counts(written=20_000), **fields) is None
    found = session.send(body, counts=counts(written=21_000))
    assert found.predecessor_entry_id == session.calls[0].entry.entry_id


def test_two_subagents_of_one_session_do_not_break_each_other():
    session = Session()
    for turns in range(1, 5):
        for agent in ("a", "b", None):
            body = request(
                *conversation(turns, f"Agent {agent}."), system=[text(f"{agent}" + LONG, MARKER)]
            )
            assert session.send(body, agent_id=agent) is None


def test_what_one_agent_left_is_not_what_another_one_continues():
    session = Session()
    body = request(*conversation(2))
    session.send(body, counts=counts(written=20_000), agent_id="a")
    assert session.send(body, counts=counts(written=20_000), agent_id="b") is None
    assert session.send(body, counts=counts(written=20_000), agent_id="a") is not None


def test_parallel_calls_with_one_prefix_all_write_and_none_breaks():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=10_000))
    longer = conversation(3)
    session.send(request(*longer), counts=counts(read=9_000, written=12_000), answered_after_s=60)
    found = session.send(request(*longer), 1, counts=counts(read=10_000, written=11_000))
    assert found is None


def test_of_two_calls_the_one_that_began_first_precedes_whichever_was_stored_first():
    session = Session()
    slow = session.record(request(*conversation(2)), 0, counts(written=20_000))
    session.at_s = 10
    body = request(*conversation(3))
    assert session.send(body, 0, counts=counts(written=21_000)) is None
    session.calls.insert(1, slow)
    found = session.judge(session.calls[0])
    assert found.predecessor_entry_id == slow.entry.entry_id
    assert session.judge(slow) is None


def test_independent_prompts_under_one_session_do_not_break_each_other():
    session = Session()
    for document in ("One", "Two", "Three"):
        body = request(user(text(f"{document} " * 3_000), text("Summarise this document.")))
        assert session.send(body) is None
    long_system = [text(LONG, MARKER)]
    assert session.send(request(*conversation(4, "Other."), system=long_system)) is None


def test_the_first_call_of_a_session_that_reads_what_another_one_wrote_is_no_break():
    session = Session()
    session.send(request(*conversation(3)), session_id="s0")
    assert session.send(request(*conversation(3, "Other. "))) is None
    assert session.calls[1].summary.tokens.read > 4_000


def test_going_back_to_an_earlier_turn_is_no_break():
    session = Session()
    for turns in range(1, 9):
        session.send(request(*conversation(turns)))
    back = conversation(6)
    back[-1] = user(text("Something else. " * 2_000))
    assert session.send(request(*back)) is None


def test_the_first_call_after_a_compaction_is_no_break():
    session = Session()
    for turns in range(1, 5):
        session.send(request(*conversation(turns)))
    summary = request(*conversation(4), user(text("Summarise the conversation.")))
    assert session.send(summary, request_class="compaction") is None
    words = "This session is being continued from a previous conversation. " + "It is so. " * 500
    short = [user(text(words))]
    assert session.send(request(*short)) is None
    short += [assistant(text("Yes.")), user(text("Go on."))]
    assert session.send(request(*short)) is None
    broken = session.send(request(*short, assistant(text("a")), user(text("b")), tools=[]))
    assert broken.cause == "tools"


def test_a_conversation_that_goes_on_from_a_compaction_block_is_no_break():
    session = Session()
    for turns in range(1, 5):
        session.send(request(*conversation(turns)))
    block = {"type": "compaction", "content": "It is so. " * 500, "signature": "s"}
    short = [assistant(block), user(text("Go on."))]
    assert session.send(request(*short)) is None
    assert session.send(request(*short, assistant(text("Yes.")), user(text("Go on.")))) is None


COMPACTION = {"type": "compaction", "content": "It is so. " * 500, "encrypted_content": None}


@pytest.mark.parametrize("session_id", ["s1", None])
def test_a_block_that_stands_for_the_history_finds_the_call_that_answered_with_it(session_id):
    session = Session()
    session.send(request(*conversation(4)), session_id=session_id)
    asked = request(*conversation(4), compaction={"type": "summarize"})
    answer = orjson.dumps({"type": "message", "role": "assistant", "content": [COMPACTION]})
    counted = counts(read=20_000) | {"iterations": [{"type": "compaction", "input_tokens": 5}]}
    session.send(asked, counts=counted, response=answer, session_id=session_id)
    # Clients leave out fields that are null.
    block = {name: COMPACTION[name] for name in ("type", "content")}
    short = request(assistant(block), user(text("Go on.")))
    call = session.record(short, 60, session_id=session_id)
    found = find_predecessor(call.summary, call.prompt, [c.summary for c in session.calls])
    assert found is not None
    assert (found.call.entry_id, found.found_by) == (
        session.calls[1].entry.entry_id,
        "compaction",
    )
    assert session.judge(call) is None
    other = request(assistant(block | {"content": "Other."}), user(text("Go on.")))
    other_call = session.record(other, 70, session_id=session_id)
    found = find_predecessor(other_call.summary, other_call.prompt, [session.calls[1].summary])
    assert found is None or found.found_by != "compaction"


@pytest.mark.parametrize(
    ("clear_at", "is_break"), [("next_user_message", False), ("never", True), (None, True)]
)
def test_a_reminder_that_the_model_no_longer_sees_ends_the_prefix_before_it(clear_at, is_break):
    reminder = {"role": "system", "content": [text("Remember. " * 200)]}
    reminder |= {"clear_at": clear_at} if clear_at else {}
    history = conversation(3)
    before = mark_last(request(*history, reminder))
    before["messages"][-2]["content"][-1]["cache_control"] = MARKER
    session = Session()
    session.send(before, counts=counts(written=40_000))
    prompt = session.calls[0].summary.prompt
    assert prompt is not None
    size = [each.size for each in prompt.markers]
    kept = round(40_000 * size[-2] / size[-1])
    now = request(*history, reminder, assistant(text("Yes.")), user(text("Go on.")))
    found = session.send(now, counts=counts(read=kept, written=42_000 - kept))
    assert (found is not None) == is_break
    # What was lost before the reminder is a break all the same, and its size an estimate.
    session = Session()
    session.send(before, counts=counts(written=40_000))
    found = session.send(now, counts=counts(read=kept - 9_000, written=51_000 - kept))
    assert (found.tokens, found.is_estimated) == (
        (40_000 - kept + 9_000, False) if is_break else (9_000, True)
    )


def test_a_header_says_that_the_history_was_shortened_also_where_its_call_failed():
    hint = '{"x-claude-code-context-compacted":"auto"}'
    kept = conversation(6)[4:]
    for is_answered in (True, False):
        session = Session()
        session.send(request(*conversation(6)), counts=counts(written=20_000))
        answered_after_s = 1.0 if is_answered else None
        used = counts(written=9_000) if is_answered else {}
        body = request(*kept, *conversation(2)[1:])
        first = session.send(
            body, counts=used, answered_after_s=answered_after_s, client_hints=hint
        )
        assert first is None
        if not is_answered:
            assert session.send(body, counts=counts(written=9_000)) is None
    session = Session()
    session.send(request(*conversation(6)), counts=counts(written=20_000))
    assert session.send(body, counts=counts(written=9_000)).found_by == "overlap"


def test_the_same_messages_in_another_order_are_another_conversation():
    messages = conversation(4)
    session = Session()
    session.send(request(*messages), counts=counts(written=20_000))
    mixed = [messages[place] for place in (6, 1, 0, 3, 2, 5, 4)]
    assert session.send(request(*mixed), counts=counts(written=20_000)) is None


def test_a_history_that_was_shortened_elsewhere_excuses_no_break():
    session = Session()
    session.send(request(*conversation(3)), counts=counts(written=20_000))
    hint = '{"x-claude-code-context-compacted":"auto"}'
    short = request(*conversation(1, "Another. "))
    assert session.send(short, counts=counts(written=9_000), client_hints=hint) is None
    assert session.send(request(*conversation(4)), counts=counts(written=21_000)) is not None


def test_edits_and_compactions_by_the_server_are_expected():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    edited = CacheReport(has_edits=True)
    again = counts(written=21_000)
    assert session.send(request(*conversation(3)), counts=again, report=edited) is None
    passes = [
        {"type": "compaction", "input_tokens": 5, "cache_read_input_tokens": 0},
        {"type": "message", "input_tokens": 5, "cache_creation_input_tokens": 4_000},
    ]
    assert session.send(request(*conversation(4)), counts=again | {"iterations": passes}) is None
    # The size of what it left is that of its last pass.
    assert session.calls[-1].summary.prefix_tokens == 4_000


def test_of_several_passes_the_first_reads_and_the_last_leaves_the_prefix():
    session = Session()
    passes = [
        {"type": "message", "input_tokens": 5, "cache_creation_input_tokens": 10_000},
        {
            "type": "advisor",
            "model": "claude-opus-4-6",
            "input_tokens": 900,
            "cache_creation_input_tokens": 0,
        },
        {
            "type": "message",
            "input_tokens": 5,
            "cache_read_input_tokens": 10_000,
            "cache_creation_input_tokens": 2_500,
        },
    ]
    whole = counts(read=10_000, written=12_500, iterations=passes)
    session.send(request(*conversation(2)), counts=whole)
    assert session.calls[0].summary.prefix_tokens == 12_500
    later = [{"type": "advisor", "input_tokens": 9}, passes[2] | {"cache_read_input_tokens": 400}]
    found = session.send(request(*conversation(3)), counts=whole | {"iterations": later})
    assert found is not None
    assert (found.read_tokens, found.tokens) == (400, 2_505)


def test_a_pass_that_upstream_has_not_counted_says_nothing_about_the_prefix():
    counted = Pass(
        type="message",
        model=None,
        tokens=TokenCounts(input_tokens=5, cache_creation_input_tokens=10_000),
    )
    more = TokenCounts(input_tokens=5, cache_creation_input_tokens=30_000)
    assumed = replace(counted, tokens=more, estimates_prompt=True)
    unknown = Pass(type="message", model=None, tokens=ZERO)
    entry = Session().record(request(*conversation(2)), 0, counts(written=10_000)).entry
    usage = Usage(
        streamed=True,
        source="estimated",
        model=MODEL,
        tokens=TokenCounts(input_tokens=5, cache_creation_input_tokens=4_000),
        passes=(unknown, counted, assumed, unknown),
    )
    call = summarize_call(entry, usage, None)
    assert (call.pass_index, call.prefix_tokens) == (1, 10_000)


def test_a_call_that_begins_in_the_millisecond_of_the_answer_continues_it():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000), answered_after_s=0.0009)
    body = request(*conversation(2))
    found = session.send(body, 0, counts=counts(written=21_000), answered_after_s=0.0009)
    assert found.predecessor_entry_id == session.calls[0].entry.entry_id
    assert session.judge(session.calls[0]) is None


def test_a_sum_over_searches_says_nothing_about_the_prefix():
    session = Session()
    searched = counts(written=90_000, server_tool_use={"web_search_requests": 4})
    session.send(request(*conversation(2)), counts=searched)
    assert session.calls[0].summary.prefix_tokens is None
    assert session.send(request(*conversation(3)), counts=counts(written=21_000)) is None


def test_a_split_of_zeros_is_ruled_by_the_total():
    session = Session()
    zeros = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    session.send(request(*conversation(2)), counts=counts(written=20_000, **zeros))
    found = session.send(request(*conversation(3)), counts=counts(written=21_000, **zeros))
    assert found.tokens == 20_000
    assert found.extra_cost_cents == 20_000 * Decimal("3.45") / 10_000


def test_a_prompt_below_the_smallest_prefix_of_its_model_is_no_break():
    haiku = request(*conversation(2), model="claude-haiku-4-5")
    for uncached, is_break in ((4_000, False), (9_000, True)):
        session = Session()
        session.send(request(*conversation(1)), counts=counts(written=9_000))
        found = session.send(haiku, counts=counts(uncached=uncached))
        assert (found is not None) == is_break


def test_a_model_there_and_back_misses_little_on_return():
    session = Session()
    session.send(request(*conversation(2)))
    there = session.send(request(*conversation(3), model="claude-opus-4-5"))
    assert there.cause == "model"
    assert there.is_estimated
    assert there.detail == "The model changed from claude-sonnet-4-5 to claude-opus-4-5."
    assert session.send(request(*conversation(4))) is None


def test_a_dated_name_is_the_same_model():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    dated = counts(written=21_000, model="claude-sonnet-4-5-20250929")
    found = session.send(request(*conversation(3)), counts=dated)
    assert (found.cause, found.is_estimated) == ("unknown", False)


def test_without_bodies_the_counts_of_messages_find_the_call_before():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000), keeps_bodies=False)
    session.send({**request(user(text("Title?"))), "tools": []}, keeps_bodies=False)
    found = session.send(
        request(*conversation(3)), counts=counts(written=21_000), keeps_bodies=False
    )
    assert (found.found_by, found.cause, found.tokens) == ("counts", "unknown", 20_000)
    assert "kept" in found.detail
    assert (
        session.send(request(user(text("New"))), counts=counts(uncached=9_000), keeps_bodies=False)
        is None
    )


def test_programs_without_sessions_are_told_apart_by_credential_and_content():
    session = Session()
    mine: dict[str, Any] = {"session_id": None, "credential_hmac": "mine"}
    session.send(request(*conversation(3)), **mine)
    session.send(request(*conversation(3, "Other. ")), **mine)
    found = session.send(request(*conversation(4, "An American ship. ")), **mine)
    assert found.cause == "messages"
    assert session.send(request(*conversation(5)), session_id=None, credential_hmac="x") is None


def test_the_upstream_may_name_the_call_before():
    session = Session()
    session.send(request(*conversation(2)), report=CacheReport(message_id="msg_1"))
    session.send(request(*conversation(3)))
    body = {**request(*conversation(3)), "diagnostics": {"previous_message_id": "msg_1"}}
    found = session.send(body, counts=counts(written=21_000))
    assert found.predecessor_entry_id == session.calls[0].entry.entry_id
    assert found.found_by == "upstream"


def test_a_prefix_that_was_never_cached_cannot_break():
    session = Session()
    bare = {"model": MODEL, "system": LONG, "tools": []}
    for turns in range(1, 4):
        assert session.send({**bare, "messages": conversation(turns)}) is None


def _step(kind, turns):
    if kind == "grow":
        return request(*conversation(turns))
    if kind == "tools":
        return request(*conversation(turns), tools=[tool("Read"), tool(f"T{turns}")])
    if kind == "edit":
        return request(*conversation(turns, f"A British ship.  {turns} "))
    return mark_last(request(*conversation(turns)), HOUR)


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["grow", "grow", "tools", "edit", "hour"]),
            st.sampled_from([5.0, 250.0, 301.0, 4000.0]),
        ),
        min_size=2,
        max_size=8,
    )
)
def test_no_more_tokens_are_missed_than_were_written_or_uncached(steps):
    session = Session()
    for turns, (kind, gap) in enumerate(steps, 1):
        found = session.send(_step(kind, turns), gap)
        tokens = session.calls[-1].summary.tokens
        if found is not None:
            assert 0 < found.tokens <= tokens.written + tokens.uncached
            assert found.cause
            assert len(found.detail) <= 240
    if all(kind == "grow" and gap < 300 for kind, gap in steps):
        assert all(call.found is None for call in session.calls)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(1, 3), st.floats(1, 200)), min_size=2, max_size=10))
def test_a_session_in_which_only_the_tail_grows_never_breaks(growth):
    session, turns = Session(), 0
    for more, gap in growth:
        turns += more
        assert session.send(request(*conversation(turns)), gap) is None


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(["a", "a", "a", "b", "b", "b", "c", "c"]), st.randoms())
def test_unrelated_sessions_do_not_change_what_is_found_in_one(order, random):
    alone = {name: Session() for name in "abc"}
    mixed, turns = Session(), dict.fromkeys("abc", 0)
    for place, name in enumerate(order):
        turns[name] += 1
        body = request(*conversation(turns[name], f"Ship {name}. "))
        body["system"][0]["text"] = f"{name}{'!' if turns[name] == 2 else ''}"
        at = 10.0 * place
        used = alone[name].upstream.count(body, at)
        both = alone[name].record(body, at, used, session_id=name)
        found = alone[name].judge(both)
        alone[name].calls.append(both)
        random.shuffle(mixed.calls)
        again = mixed.judge(both)
        mixed.calls.append(both)
        assert found == again


def test_a_break_of_another_pass_is_priced_by_that_pass():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    advisor = {
        "type": "advisor",
        "model": "claude-opus-4-5",
        "input_tokens": 900,
        "cache_creation_input_tokens": 70_000,
    }
    message = {"type": "message", "input_tokens": 5, "cache_creation_input_tokens": 21_000}
    found = session.send(
        request(*conversation(3)), counts=counts(written=21_000, iterations=[advisor, message])
    )
    assert found.extra_cost_cents == 20_000 * Decimal("3.45") / 10_000


def test_what_upstream_does_not_bill_costs_nothing():
    session = Session()
    session.send(request(*conversation(2)), counts=counts(written=20_000))
    call = session.record(request(*conversation(3)), 20, counts(written=21_000))
    free = [item._replace(unbilled_reason="declined_hop") for item in call.bill.items]
    call.bill = replace(call.bill, items=free)
    assert session.judge(call).extra_cost_cents == 0
