import time

import pytest
from hypothesis import given, strategies as st

from metering.output import find_outputs_in_document, find_outputs_in_stream
from tests.metering.responses import event
from wire.sse import MAX_BLOCKS

FALLBACK = {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}}
EMPTY = [
    {"type": "text", "text": ""},
    {"type": "text", "text": "", "citations": None},
    {"type": "thinking", "thinking": "", "signature": ""},
]
CARRYING = [
    {"type": "text", "text": "a"},
    {"type": "thinking", "thinking": "hm", "signature": ""},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "a"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
]
DELTAS = [
    {"type": "text_delta", "text": "a"},
    {"type": "thinking_delta", "thinking": "hm"},
    {"type": "signature_delta", "signature": "c2ln"},
    {"type": "input_json_delta", "partial_json": "{"},
]


def start(block: object) -> bytes:
    return event("content_block_start", index=0, content_block=block)


@pytest.mark.parametrize("block", EMPTY)
def test_a_block_without_any_value_is_no_output(block):
    assert find_outputs_in_document([block]) == [False]
    assert find_outputs_in_stream(start(block) + event("content_block_stop", index=0), 1) == [False]


@pytest.mark.parametrize("block", CARRYING)
def test_a_block_with_a_value_is_output(block):
    assert find_outputs_in_document([block]) == [True]
    assert find_outputs_in_stream(start(block), 1) == [True]


@pytest.mark.parametrize("delta", DELTAS)
def test_a_delta_is_output_unless_it_is_empty(delta):
    empty = {name: "" if name != "type" else value for name, value in delta.items()}
    body = start(EMPTY[0]) + event("content_block_delta", index=0, delta=empty)
    assert find_outputs_in_stream(body, 1) == [False]
    assert find_outputs_in_stream(body + event("content_block_delta", index=0, delta=delta), 1) == [
        True
    ]


@given(st.lists(st.sampled_from([FALLBACK, EMPTY[0], CARRYING[0], CARRYING[4]])))
def test_a_stream_is_divided_as_the_document_of_the_same_content(content):
    parts = content.count(FALLBACK) + 1
    found = find_outputs_in_document(content)
    assert find_outputs_in_stream(b"".join(map(start, content)), parts) == found
    assert len(found) == parts


def test_text_about_a_fallback_divides_nothing():
    said = start({"type": "text", "text": '{"type":"fallback"}'})
    assert find_outputs_in_stream(said + start(FALLBACK) + start(EMPTY[0]), 2) == [True, False]


def test_what_lies_beyond_the_blocks_that_are_read_is_taken_for_output():
    text = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "a" * 99})
    body = text * (2 * MAX_BLOCKS) + start(FALLBACK) + text * MAX_BLOCKS
    assert find_outputs_in_stream(body, 2) == [True, True]


@pytest.mark.parametrize("content", [None, "text", [None, 1, "a", []], {"type": "text"}])
def test_content_that_is_none_is_no_output(content):
    assert find_outputs_in_document(content) == [False]


@pytest.mark.parametrize("block", [FALLBACK, EMPTY[0]])
def test_hundreds_of_thousands_of_blocks_take_no_second(block):
    body = start(block) * 200_000
    begun_s = time.process_time()
    find_outputs_in_stream(body, 2)
    assert time.process_time() - begun_s < 3
