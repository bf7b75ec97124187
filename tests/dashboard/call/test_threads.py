"""Pages of calls of a message thread have the whole request, and say what of it was sent."""

import json
import re
from html import unescape

import pytest

from store.traces.calls.predecessors import write_previous
from store.traces.database import TraceDatabase
from tests.dashboard.call.test_new_first import ask as ask, text_of

TOOL = {"name": "read_it", "description": "Reads it. " * 50, "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read_it", "input": {"path": "a"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Words of the file. " * 50}
FIRST = {
    "model": "m",
    "thread": {"type": "create"},
    "system": "Be brief, by all means.",
    "tools": [TOOL],
    "messages": [{"role": "user", "content": "Words of the question."}],
}
NEXT = {
    "model": "m",
    "max_tokens": 9,
    "thread": {"type": "continue", "previous_message_id": "msg_1"},
    "messages": [
        {"role": "user", "content": [RESULT]},
        {"role": "system", "content": "Words of a reminder."},
    ],
}
ANSWER = {"id": "msg_1", "content": [{"type": "text", "text": "Words of the answer."}, USE]}


def encode(value):
    return json.dumps(value).encode()


ENDED = encode({"id": "msg_2", "content": []})


@pytest.fixture
def record(ann):
    """Records two calls of a thread, of which the second is found to continue the first."""

    def record(*, is_found=True, **first):
        answers = {"response_body": encode(ANSWER), "thread": "create", "message_id": "msg_1"}
        going_on = {"thread": "continue", "thread_previous_id": "msg_1"}
        ann.record(
            {"request_body": encode(FIRST)} | answers | first,
            {"request_body": encode(NEXT), "response_body": ENDED} | going_on,
        )
        if is_found:
            with TraceDatabase(ann.path) as traces:
                write_previous(traces.connection, 2, 1)

    return record


async def test_a_call_has_its_history_and_says_what_was_sent(ask, record):
    record()
    seen = text_of(await ask("/calls/2"))
    assert "sent 2 of 4 messages" in seen
    assert "System prompt, 1 tool, settings" in seen
    assert "2 earlier messages" in seen
    assert "Words of the file." in seen
    assert "Words of the question." not in seen
    earlier = (await ask("/traces/usage/2/request/messages/1-2/part")).text
    assert "Words of the question." in earlier
    assert "Words of the answer." in earlier
    assert "Be brief" in (await ask("/traces/usage/2/request/front/part")).text


async def test_what_was_sent_is_shown_as_it_was(ask, record):
    record()
    raw = unescape((await ask("/traces/usage/2/request/raw")).text)
    assert "previous_message_id" in raw
    assert "Words of the question." not in raw


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"is_found": False}, "a call of its thread is not recorded"),
        ({"usage_source": "partial"}, "the response to a call of its thread was cut"),
        ({"response_body": None}, "the bodies of a call of its thread were not kept"),
    ],
)
async def test_a_history_that_is_not_recorded_is_named(ask, record, first, words):
    record(**first)
    seen = text_of(await ask("/calls/2"))
    assert words in seen
    assert "Words of the file." in seen
    assert "of 4 messages" not in seen


async def test_a_client_that_left_with_the_whole_answer_leaves_no_gap(ask, record):
    record(outcome="client_disconnected")
    seen = text_of(await ask("/calls/2"))
    assert "sent 2 of 4 messages" in seen
    assert "of its thread" not in seen


async def test_the_contents_of_the_prompt_are_those_of_the_thread(ask, record):
    record()
    seen = text_of(await ask("/traces/usage/2/context"))
    for words in ("read_it", "System prompt", "Tool results"):
        assert words in seen


async def test_two_calls_of_a_thread_are_compared_as_whole_prompts(ask, record):
    record()
    seen = text_of(await ask("/traces/usage/1/compare/2"))
    assert "read_it" not in re.sub(r"tool_use|Tool call read_it", "", seen.partition("Messages")[0])
    assert "Words of the file." in seen


async def test_a_call_is_sent_again_with_all_messages_and_without_its_thread(ask, record):
    record()
    page = unescape((await ask("/traces/usage/2/replay")).text)
    assert "Words of the question." in page
    assert "Words of the answer." in page
    assert '"thread"' not in page.partition("<textarea")[2].partition("</textarea>")[0]


async def test_a_page_says_what_upstream_has_changed_in_the_request(ask, ann):
    edits = [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 3}]
    answer = ANSWER | {"context_management": {"applied_edits": edits}}
    ann.record({"request_body": encode(FIRST), "response_body": encode(answer)})
    ann.record({"request_body": encode(FIRST), "response_body": encode(ANSWER)})
    seen = text_of(await ask("/calls/1"))
    assert "Changed by upstream: it cleared 3 tool calls. The request is shown as the" in seen
    assert "Changed by upstream" not in text_of(await ask("/calls/2"))
