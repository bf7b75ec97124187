import orjson
import pytest
from hypothesis import given, strategies as st

from metering.output import find_outputs
from tests.metering.responses import event
from wire.block import list_blocks
from wire.content import Content, read_content

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


def find(*events: bytes) -> list[bool]:
    return find_outputs(read_content(b"".join(events)), 1)


def start(block: object, index: int = 0) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def add(delta: object) -> bytes:
    return event("content_block_delta", index=0, delta=delta)


@pytest.mark.parametrize(
    ("block", "expected"), [*((b, False) for b in EMPTY), *((b, True) for b in CARRYING)]
)
def test_a_block_with_a_value_is_output(block, expected):
    assert find_outputs(Content(list_blocks([block])), 1) == [expected]
    assert find(start(block), event("content_block_stop", index=0)) == [expected]


@pytest.mark.parametrize("delta", DELTAS)
def test_a_delta_is_output_unless_it_is_empty(delta):
    empty = {name: "" if name != "type" else value for name, value in delta.items()}
    assert find(start(EMPTY[0]), add(empty)) == [False]
    assert find(start(EMPTY[0]), add(empty), add(delta)) == [True]


@given(st.lists(st.sampled_from([FALLBACK, EMPTY[0], CARRYING[0], CARRYING[4]])))
def test_a_stream_is_divided_as_the_document_of_the_same_content(content):
    parts = content.count(FALLBACK) + 1
    found = find_outputs(Content(list_blocks(content)), parts)
    stream = b"".join(start(block, index) for index, block in enumerate(content))
    assert find_outputs(read_content(stream), parts) == found
    assert len(found) == parts


def test_what_lies_beyond_the_events_that_are_read_is_taken_for_output():
    found = read_content(start(EMPTY[0]) + start(FALLBACK, 1) + start(EMPTY[0], 2), max_events=1)
    assert find_outputs(found, 2) == [False, True]


@pytest.mark.parametrize("content", [None, "text", [None, 1, "a", []], {"type": "text"}])
def test_content_that_is_none_is_no_output(content):
    assert find_outputs(read_content(orjson.dumps({"content": content})), 1) == [False]
