"""The texts of responses."""

import json

import pytest

from store.traces.search import responses
from store.traces.search.responses import read_deltas, read_response
from tests.recorded import RECORDED, needs_recorded
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


def test_what_was_read_of_a_response_is_the_same_the_next_time():
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    body = stream('{"command": "ls"}', kind="input_json_delta", name="partial_json", block=block)
    before = read_deltas(body), read_response(body)
    assert (read_deltas(bytes(bytearray(body))), read_response(body)) == before
    assert before == (
        {(0, "partial_json"): '{"command": "ls"}'},
        [("assistant", "Bash"), ("assistant", "ls")],
    )


def test_a_short_response_is_taken_apart_once_and_a_long_one_is_not_remembered():
    responses._remember_parts.cache_clear()
    short, long = stream("hello"), stream("hello" * responses.MAX_REMEMBERED_BYTES)
    for _ in range(3):
        read_deltas(short)
        read_deltas(long)
    info = responses._remember_parts.cache_info()
    assert (info.hits, info.misses, info.currsize) == (2, 1, 1)


@needs_recorded
def test_recorded_streams_are_read_alike_by_both_ways():
    quick = 0
    for path in sorted(RECORDED.glob("*.sse")):
        body = path.read_bytes()
        blocks = responses._make_blocks(*responses._parse(body))
        assert dict(sorted(responses._read_stream(body).items())) == dict(sorted(blocks.items()))
        quick += len(responses._PLAIN_DELTA.findall(body)) == body.count(responses._DELTA)
    assert quick
