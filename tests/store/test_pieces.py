import json

import pytest
from hypothesis import given, settings, strategies as st

from store import pieces
from tests.store.traffic import agent_requests

FRAGMENTS = [pattern for pattern, _ in pieces._PATTERNS] + [
    b"{",
    b'"',
    b"}]}",
    b",",
    "ü€😀".encode(),
    b'\\"role\\":',
    b"\xff\x00",
]
bodies = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=8), max_size=60).map(b"".join)


@given(bodies)
def test_joined_pieces_are_the_body(body):
    assert b"".join(pieces.cut(body)) == body
    assert all(pieces.cut(body))


@given(bodies)
def test_joined_segments_are_the_body(body):
    segments = pieces.group(pieces.cut(body))
    assert b"".join(piece for segment in segments for piece in segment.pieces) == body


@given(st.lists(st.sampled_from(FRAGMENTS[:-1]) | st.text(max_size=8).map(str.encode), max_size=60))
def test_a_cut_never_falls_inside_a_character(parts):
    for piece in pieces.cut(b"".join(parts)):
        piece.decode()


def test_every_pattern_puts_an_ascii_byte_beside_its_cut():
    for pattern, offset in pieces._PATTERNS:
        assert pattern.isascii()
        assert 0 <= offset < len(pattern)


def test_an_empty_body_has_no_pieces():
    assert pieces.cut(b"") == []
    assert pieces.group([]) == ()


def test_messages_system_and_tools_are_cut_apart():
    body = b'{"model":"m","system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
    assert pieces.cut(body) == [
        b'{"model":"m",',
        b'"system":"s","messages":[',
        b'{"role":"user","content":"a"},',
        b'{"role":"assistant","content":"b"',
        b"}]}",
    ]


def test_text_that_speaks_of_messages_is_not_cut():
    spoken = json.dumps({"text": 'a {"role": "user"} and "system": and "tools":'}).encode()
    assert pieces.cut(spoken) == [spoken]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_moving_cache_marker_leaves_the_text_piece_as_it_is(separators):
    def body(block):
        message = {"role": "user", "content": [block]}
        return json.dumps({"messages": [message]}, separators=separators).encode()

    block = {"type": "text", "text": "hello"}
    plain = pieces.cut(body(block))
    marked = pieces.cut(body(block | {"cache_control": {"type": "ephemeral"}}))
    assert plain[:2] == marked[:2]
    assert plain[1].endswith(b'hello"')


def test_a_hostile_body_is_cut_a_bounded_number_of_times():
    body = b'[{"role":{"content":"system":' * 100_000
    cut = pieces.cut(body)
    assert len(cut) == pieces.MAX_CUTS + 1
    assert b"".join(cut) == body
    # The bound takes the first cuts of the body, not those of one pattern.
    assert cut[:4] == [b"[", b'{"role":', b'{"content":', b'"system":[']


def test_a_body_that_starts_with_a_pattern_has_its_full_number_of_cuts():
    assert len(pieces.cut(b'{"role":' * 10_000)) == pieces.MAX_CUTS + 1


@given(st.lists(st.binary(min_size=1, max_size=3), max_size=600))
@settings(max_examples=30)
def test_segments_are_bounded(data):
    segments = pieces.group(data)
    assert all(1 <= len(each.pieces) <= pieces.MAX_PIECES_PER_SEGMENT for each in segments)
    assert [piece for each in segments for piece in each.pieces] == data


def test_one_piece_repeated_for_ever_still_makes_bounded_segments():
    sizes = [len(each.pieces) for each in pieces.group([b"x"] * 1000)]
    assert sum(sizes) == 1000
    assert max(sizes) <= pieces.MAX_PIECES_PER_SEGMENT


def test_a_piece_found_in_every_message_does_not_end_a_segment_at_each():
    """Whatever the hash of the common piece is."""
    for common in range(64):
        data = [f"{n}".encode() if n % 2 else b"common %d" % common for n in range(2000)]
        assert 2000 / 64 < len(pieces.group(data)) < 2000 / 16


def test_an_edit_early_on_keeps_the_later_segments():
    data = [f"piece {n}".encode() for n in range(2000)]
    before = {each.digest for each in pieces.group(data)}
    after = {each.digest for each in pieces.group([*data[:5], b"new", *data[6:]])}
    assert len(after - before) <= 2


def test_a_later_turn_brings_only_new_text():
    *_, previous, last = agent_requests(40)
    known = set(pieces.cut(previous))
    new = [piece for piece in pieces.cut(last) if piece not in known]
    assert sum(map(len, new)) < 6_000
    assert len(last) > 100_000
