"""Chat completions, read as the message that they were made of."""

import json

import pytest
from hypothesis import given, strategies as st

from tests.metering.test_chat_completions import DOCUMENT, END, LAST, PARTS, write_part
from wire.chat_completions import read_chat, read_chat_envelope
from wire.content import read_content

COUNTS = DOCUMENT["usage"]
CALL = {"type": "tool_use", "id": "call_1", "name": "Bash", "input": {"command": "ls"}}
FUNCTION = {"name": "Bash", "arguments": '{"command": "ls"}'}


def write_document(message):
    return json.dumps(
        DOCUMENT | {"choices": [{"finish_reason": "stop", "message": message}]}
    ).encode()


def read_blocks(body):
    return [block.to_fields() for block in read_content(body).blocks]


@pytest.mark.parametrize(
    ("body", "text"),
    [(json.dumps(DOCUMENT).encode(), "Hi"), (b"".join((*PARTS, LAST, END)), "Hey")],
)
def test_a_completion_is_a_message(body, text):
    found = read_chat(body)
    assert found is not None
    assert found.said.fields == {
        "type": "message",
        "id": "msg_1",
        "model": "claude-opus-5",
        "stop_reason": "stop",
    }
    assert found.said.usage.fields == COUNTS
    assert found.blocks == [{"type": "text", "text": text}]
    assert read_blocks(body) == found.blocks


def test_its_envelope_is_the_same_where_its_words_are_left_out():
    for body in (json.dumps(DOCUMENT).encode(), b"".join((*PARTS, LAST, END))):
        found = read_chat(body)
        assert found is not None
        assert read_chat_envelope(body) == found.said


def test_an_error_ends_it():
    found = read_chat(PARTS[0] + b'event: error\ndata: {"error":{"type":"overloaded_error"}}\n\n')
    assert found is not None
    assert (found.said.is_error, found.said.error_type) == (True, "overloaded_error")


def test_tool_calls_are_blocks_also_where_their_input_comes_in_parts():
    call = {"id": "call_1", "type": "function", "function": FUNCTION}
    assert read_blocks(write_document({"content": None, "tool_calls": [call]})) == [CALL]
    parts = (
        {"index": 0, "id": "call_1", "function": {"name": "Bash", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"command":'}},
        {"index": 1, "id": "call_2", "function": {"name": "Read", "arguments": '{"a'}},
        {"index": 0, "function": {"arguments": ' "ls"}'}},
    )
    stream = b"".join(write_part({"tool_calls": [part]}) for part in parts)
    cut = {"type": "tool_use", "id": "call_2", "name": "Read", "input": '{"a'}
    assert read_blocks(stream) == [CALL, cut]


def test_a_stream_that_was_cut_has_what_came():
    whole = b"".join(PARTS)
    seen = {
        "".join(block["text"] for block in read_blocks(whole[:end])) for end in range(len(whole))
    }
    assert seen == {"", "He", "Hey"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b'{"object":"chat.completion',
        b'{"type":"message","content":[{"type":"text","text":"a"}],"x":{"object":"chat.completion"}}',
        b'data: {"type":"ping","of":"x"}\n\ndata: {"object":"chat.completion.chunk"}\n\n',
    ],
)
def test_what_is_none_is_left_to_others(body):
    assert read_chat(body) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "choices",
                    "delta",
                    "message",
                    "content",
                    "tool_calls",
                    "index",
                    "function",
                    "arguments",
                )
            ),
            each,
            max_size=4,
        )
    ),
)


@given(choices=VALUES)
def test_nothing_that_choices_may_be_raises(choices):
    for kind in ("chat.completion", "chat.completion.chunk"):
        document = json.dumps({"object": kind, "choices": choices}).encode()
        for body in (document, b"data: %b\n\n" % document):
            read_chat(body)
            read_chat_envelope(body)
