"""The envelope of a response. How its counts are read: ``tests/metering/test_usage.py``."""

import json

import pytest
from hypothesis import given, strategies as st

from tests.recorded import RECORDED, needs_recorded
from tests.wire.streams import BEGUN, ENDED, FALLBACK, STREAMS, TEXT, event, start
from wire.envelope import Fallback, read_envelope
from wire.response import GrowingResponse


def grow(body: bytes) -> GrowingResponse:
    response = GrowingResponse()
    response.feed(body)
    response.finish()
    return response


def test_a_stream_says_what_the_message_is_and_how_it_ended():
    said = read_envelope(BEGUN + start(TEXT) + ENDED)
    assert (said.id, said.model, said.stop_reason) == ("msg_1", "a", "end_turn")
    assert (said.has_start, said.has_end, said.is_error) == (True, True, False)
    assert said.fields["stop_reason"] == "end_turn"
    assert said.usage.fields == {"input_tokens": 9, "output_tokens": 7}


def test_a_document_says_the_same():
    message = {"id": "msg_1", "model": "a", "stop_reason": "end_turn", "content": [FALLBACK]}
    said = read_envelope(b"\xef\xbb\xbf \n" + json.dumps(message).encode())
    assert (said.id, said.model, said.stop_reason) == ("msg_1", "a", "end_turn")
    assert (said.is_document, said.fallbacks) == (True, [Fallback("a", "b", None)])


@pytest.mark.parametrize("name", STREAMS)
def test_a_growing_response_says_what_the_whole_one_does(name):
    assert grow(STREAMS[name]).envelope == read_envelope(STREAMS[name])


def test_edits_and_the_diagnosis_of_a_miss_are_read():
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919"}]}
    reason = {"type": "tools_changed", "cache_missed_input_tokens": 9}
    message = {"id": "msg_1", "diagnostics": {"cache_miss_reason": reason}}
    said = read_envelope(
        event("message_start", message=message) + event("message_delta", context_management=edits)
    )
    assert (said.cache_miss, bool(said.edits)) == (reason, True)
    assert read_envelope(json.dumps(message | {"context_management": edits}).encode()).edits


def test_a_nested_object_keeps_what_a_later_event_leaves_out():
    first = {"input_tokens": 1, "cache_creation": {"a": 1, "b": 2, "note": "x"}}
    later = {"cache_creation": {"a": 3, "b": None}}
    body = event("message_start", message={"usage": first}) + event("message_delta", usage=later)
    found = read_envelope(body).usage
    assert found.fields == {"input_tokens": 1, "cache_creation": {"a": 3, "b": 2, "note": "x"}}
    assert (
        found.count_part("cache_creation", "a"),
        found.count_part("cache_creation", "note"),
    ) == (3, None)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(noise):
    for body in (noise, BEGUN + noise, b"{" + noise, b"data: {" + noise + b"}message_\n\n"):
        assert grow(body).envelope.is_document is False
        read_envelope(body)


def test_what_is_no_stream_is_not_kept():
    response = grow(b'{"a": 1}')
    assert not response.is_stream
    response = GrowingResponse()
    for _ in range(12):
        response.feed(b"data: " + b"x" * 500_000)
    assert (response.is_full, response.content.blocks) == (True, [])


@needs_recorded
def test_recorded_streams_say_the_same_as_they_grow():
    for path in sorted(RECORDED.glob("*.sse")):
        body = path.read_bytes()
        assert grow(body).envelope == read_envelope(body)
