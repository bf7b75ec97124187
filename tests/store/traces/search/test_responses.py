"""The texts of responses."""

import json

import pytest

from store.traces.search.responses import read_response
from tests.metering.test_chat_completions import END, PARTS
from tests.store.traces.search.conversation import response, stream, tool_call


@pytest.mark.parametrize("space", ["", " "])
def test_words_that_are_split_over_deltas_come_together(space):
    body = stream("The quo", "kka\\", "n", " is \ud83d", "\ude00", " here", space=space)
    assert read_response(body) == [("assistant", "The quokka\\n is \U0001f600 here")]


def test_what_a_tool_is_called_with_is_read_as_json():
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    parts = ('{"comm', 'and": "ls wom', 'bats", "n": 1}')
    body = stream(*parts, kind="input_json_delta", name="partial_json", block=block)
    assert read_response(body) == [("assistant", "Bash"), ("assistant", "ls wombats")]


def test_a_chat_completion_is_read_as_a_message_is():
    assert read_response(b"".join((*PARTS, END))) == [("assistant", "Hey")]


def test_a_document_is_read_as_a_stream_is():
    found = {"type": "web_search_tool_result", "content": [{"type": "x", "title": "Ponds"}]}
    body = response("hello", tool_call(1, command="ls"), found)
    assert read_response(body) == [
        ("assistant", "hello"),
        ("assistant", "Bash"),
        ("assistant", "ls"),
        ("tool_result", "Ponds"),
    ]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"data: {", b'{"content": 5}', b"\xff\xfe"])
def test_what_is_no_message_has_no_texts(body):
    assert read_response(body) == []


def test_a_stream_that_ends_in_the_middle_has_what_came():
    body = stream("all ", "of ", "this")
    assert read_response(body[: body.index(b"this")]) == [("assistant", "all of ")]


def test_streams_that_are_written_in_other_ways_are_parsed():
    body = stream("one ", "two").replace(b"\n", b"\r\n")
    assert read_response(body) == [("assistant", "one two")]
    other = b"".join(
        b"data: %b\n\n" % json.dumps(each).encode()
        for each in (
            {"index": 0, "content_block": {"type": "text"}, "type": "content_block_start"},
            {
                "delta": {"text": "odd", "type": "text_delta"},
                "type": "content_block_delta",
                "index": 0,
            },
        )
    )
    assert read_response(other) == [("assistant", "odd")]
