import json
from unittest import mock

import pytest
from hypothesis import given, strategies as st

from tests.processor_time import takes_less_than
from wire import sse
from wire.sse import END_BYTES, MAX_BLOCKS, Event, looks_like_sse, parse_events

PLAIN = b'event: a\ndata: {"n":1}\n\nevent: b\ndata: {"n":2}\n\n'
PARSED = [Event("a", b'{"n":1}'), Event("b", b'{"n":2}')]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"], ids=["LF", "CR", "CRLF"])
def test_each_kind_of_line_end_ends_a_line(end):
    assert list(parse_events(PLAIN.replace(b"\n", end))) == PARSED


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"\xef\xbb\xbf" + PLAIN, PARSED),
        (b": comment\n\n" + PLAIN + b":\n\n", PARSED),
        (b"id: 7\nretry: 10\n" + PLAIN, PARSED),
        (b"\n\n\n" + PLAIN.replace(b"\n\n", b"\n\n\n\n"), PARSED),
        (b"data: {}\n\n", [Event("message", b"{}")]),
        (b"event:a\ndata:{}\n\n", [Event("a", b"{}")]),
        (b"data:  two spaces\n\n", [Event("message", b" two spaces")]),
        (b'data: {"a":\ndata: 1}\n\n', [Event("message", b'{"a":\n1}')]),
        (b"event: a\nevent: b\ndata: 1\n\n", [Event("b", b"1")]),
        (b"event: alone\n\n", []),
        (b"data\n\n", []),
        (b"data: [DONE]\n\n", [Event("message", b"[DONE]")]),
        (b"unknown: 1\nDATA: 2\n data: 3\n\n", []),
        (b"event: caf\xe9\ndata: 1\n\n", [Event("caf\ufffd", b"1")]),
        (b"", []),
    ],
)
def test_streams_are_read_by_the_standard(stream, events):
    assert list(parse_events(stream)) == events


def test_an_event_without_its_blank_line_is_given_too():
    assert list(parse_events(PLAIN.rstrip(b"\n"))) == PARSED


@pytest.mark.parametrize("text", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_separators_of_unicode_are_no_line_ends(text):
    data = f'{{"text":"a{text}b"}}'.encode()
    assert list(parse_events(b"data: " + data + b"\n\n")) == [Event("message", data)]


def test_text_that_imitates_events_stays_text():
    data = json.dumps({"text": 'x\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n'})
    stream = f"event: content_block_delta\ndata: {data}\n\n".encode()
    assert list(parse_events(stream)) == [Event("content_block_delta", data.encode())]


def test_blocks_without_a_wanted_string_are_passed_over():
    assert list(parse_events(PLAIN, (b"event: b", b"nowhere"))) == PARSED[1:]


@given(st.integers(0, len(PLAIN)))
def test_a_stream_cut_anywhere_gives_whole_events_and_at_most_one_cut_one(cut):
    events = list(parse_events(PLAIN[:cut]))
    whole = len(PLAIN[:cut].split(b"\n\n")) - 1
    assert events[:whole] == PARSED[:whole]
    assert len(events) <= whole + 1


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data):
    list(parse_events(data))
    looks_like_sse(data)


@given(st.lists(st.sampled_from([b"", b"data: 1", b"data: 2", b"event: 1", b": 2", b"3"])))
def test_passing_over_a_block_is_the_same_as_reading_it_and_throwing_it_away(lines):
    stream = b"\n".join(lines)
    blocks = [block for block in stream.split(b"\n\n") if b"1" in block or b"2" in block]
    expected = [event for block in blocks for event in parse_events(block)]
    assert list(parse_events(stream, (b"1", b"2"))) == expected


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b"event: message_start\n", True),
        (b"\xef\xbb\xbf\r\ndata:{}", True),
        (b": ping\n", True),
        (b"retry: 3\n", True),
        (b'{"data": 1}', False),
        (b"<html>data: 1", False),
        (b"data", False),
        (b"", False),
    ],
)
def test_a_stream_is_recognised_by_its_first_line(body, answer):
    assert looks_like_sse(body) is answer


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [b"\n\nerror", b"data: message_delta\n\n", b"data: error " + b"x" * 20_000 + b"\n\n"],
    ids=["no event", "event", "large event"],
)
def test_of_very_many_events_only_the_first_and_those_near_the_end_are_read(block, monkeypatch):
    parse = mock.Mock(wraps=sse._parse_block)
    monkeypatch.setattr(sse, "_parse_block", parse)
    end = b"data: message_delta the last\n\ndata: message_stop"
    stream = b"data: message_start\n\n" + block * (3_000_000 // len(block)) + b"\n\n" + end
    events = list(parse_events(stream, (b"message_", b"error")))
    assert events[0].data == b"message_start"
    assert [event.data for event in events[-2:]] == [b"message_delta the last", b"message_stop"]
    blocks = [call.args[0] for call in parse.call_args_list]
    assert len(blocks) <= MAX_BLOCKS + END_BYTES // len(block) + 2
    assert sum(map(len, blocks)) <= sse.MAX_BLOCK_BYTES + len(block) + END_BYTES


@pytest.mark.parametrize("count", [MAX_BLOCKS - 1, MAX_BLOCKS, MAX_BLOCKS + 1, MAX_BLOCKS + 100])
def test_no_event_near_the_end_is_left_out_or_read_twice(count):
    stream = b"".join(b"data: %d\n\n" % number for number in range(count))
    expected = [Event("message", b"%d" % number) for number in range(count)]
    assert list(parse_events(stream, (b"data",))) == expected


def test_of_a_block_of_very_many_lines_the_first_are_read():
    (event,) = parse_events(b"data: message_\n" * 1_000_000, (b"message_",))
    assert event.data.count(b"\n") < sse.MAX_LINES


def test_a_large_event_is_read_and_those_near_the_end_after_it():
    large = b"message_start" + b"x" * 3_000_000
    stream = b"data: " + large + b"\n\n" + b"data: message_stop\n\n" * 100
    events = list(parse_events(stream, (b"message_",)))
    assert [event.data for event in events] == [large] + [b"message_stop"] * 100


def test_a_long_stream_of_text_costs_next_to_nothing():
    delta = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{}}'
    stream = (delta + b"\n\n") * 12_000 + b"event: message_stop\ndata: {}\n\n"
    with takes_less_than(0.25):  # about 2 ms; a line by line parse takes ten times it
        assert list(parse_events(stream, (b"message_",))) == [Event("message_stop", b"{}")]
