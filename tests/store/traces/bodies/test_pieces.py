import json
from itertools import pairwise
from unittest import mock

import pytest
from hypothesis import given, settings, strategies as st

from store.traces.bodies import pieces
from tests.store.traffic import agent_requests

# The definition: a pattern, and where the cut is from its start.
PATTERNS = (
    (b'{"role":', 0),
    (b'{"content":', 0),
    (b',"cache_control":', 0),
    (b', "cache_control":', 0),
    (b'"}]}', 1),
    (b'"system":', 0),
    (b'"tools":', 0),
)
FRAGMENTS = [pattern for pattern, _ in PATTERNS] + [
    b"{",
    b'"',
    b"}]}",
    b",",
    b" ",
    b'"role":',
    b'"cache_control":',
    "ü€😀".encode(),
    b'\\"role\\":',
    b"\xff\x00",
]
parts = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=8), max_size=60)
bodies = parts.map(b"".join)
# So that bodies of a reasonable size meet every bound.
small_bounds = mock.patch.multiple(
    pieces, MAX_CUTS=30, MEAN_PIECES_PER_SEGMENT=3, MAX_PIECES_PER_SEGMENT=5
)


def cut(body):
    return [body[start:end] for each in pieces.split(body) for start, end in each.spans]


def cut_by_definition(body):
    places = {
        place + offset
        for pattern, offset in PATTERNS
        for place in range(len(body))
        if body.startswith(pattern, place) and place + offset > 0
    }
    ends = [*sorted(places)[: pieces.MAX_CUTS], len(body)]
    return [body[start:end] for start, end in pairwise((0, *ends)) if start < end]


@given(bodies)
def test_bodies_are_cut_at_the_patterns_and_nowhere_else(body):
    assert cut(body) == cut_by_definition(body)
    with small_bounds:
        assert cut(body) == cut_by_definition(body)


@given(bodies)
def test_joined_pieces_are_the_body(body):
    assert b"".join(cut(body)) == body
    assert all(cut(body))


@small_bounds
@given(bodies)
def test_segments_follow_one_another_and_name_their_pieces(body):
    place = 0
    for segment in pieces.split(body):
        assert segment.start == place
        assert segment.piece_digests == tuple(
            pieces.digest(body[start:end]) for start, end in segment.spans
        )
        assert segment.digest == pieces.digest(b"".join(segment.piece_digests))
        place = segment.end
    assert place == len(body)


@small_bounds
@given(parts, parts, parts, st.integers(0, 20))
def test_what_two_bodies_begin_with_need_not_be_cut_twice(shared, first, second, cut_off):
    before, body = b"".join(shared + first), b"".join(shared + second)
    length = max(len(b"".join(shared)) - cut_off, 0)
    beginning = pieces.begin_alike(pieces.split(before), length)
    assert pieces.split(body, beginning) == pieces.split(body)


@given(st.lists(st.sampled_from(FRAGMENTS[:-1]) | st.text(max_size=8).map(str.encode), max_size=60))
def test_a_cut_never_falls_inside_a_character(parts):
    for piece in cut(b"".join(parts)):
        piece.decode()


def test_an_empty_body_has_no_pieces():
    assert cut(b"") == []
    assert pieces.split(b"") == []


def test_messages_system_and_tools_are_cut_apart():
    body = b'{"model":"m","system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'
    assert cut(body) == [
        b'{"model":"m",',
        b'"system":"s","messages":[',
        b'{"role":"user","content":"a"},',
        b'{"role":"assistant","content":"b"',
        b"}]}",
    ]


def test_text_that_speaks_of_messages_is_not_cut():
    spoken = json.dumps({"text": 'a {"role": "user"} and "system": and "tools":'}).encode()
    assert cut(spoken) == [spoken]


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_moving_cache_marker_leaves_the_text_piece_as_it_is(separators):
    def body(block):
        message = {"role": "user", "content": [block]}
        return json.dumps({"messages": [message]}, separators=separators).encode()

    block = {"type": "text", "text": "hello"}
    plain = cut(body(block))
    marked = cut(body(block | {"cache_control": {"type": "ephemeral"}}))
    assert plain[:2] == marked[:2]
    assert plain[1].endswith(b'hello"')


def test_a_hostile_body_is_cut_a_bounded_number_of_times():
    body = b'[{"role":{"content":"system":' * 100_000
    found = cut(body)
    assert len(found) == pieces.MAX_CUTS + 1
    assert b"".join(found) == body
    # The bound takes the first cuts of the body, not those of one pattern.
    assert found[:4] == [b"[", b'{"role":', b'{"content":', b'"system":[']


@pytest.mark.parametrize("token", [b'"role":', b'"content":', b' "cache_control":'])
def test_tokens_that_are_no_cuts_are_passed_over_by_the_search(token, monkeypatch):
    find = mock.Mock(wraps=pieces._find_cut)
    monkeypatch.setattr(pieces, "_find_cut", find)
    assert cut(token * 100_000) == [token * 100_000]
    assert find.call_count == 0


def test_a_body_that_starts_with_a_pattern_has_its_full_number_of_cuts():
    assert len(cut(b'{"role":' * 10_000)) == pieces.MAX_CUTS + 1


@given(st.lists(st.integers(0, 9), max_size=600))
@settings(max_examples=30)
def test_segments_are_bounded(numbers):
    segments = pieces.split(messages(numbers))
    sizes = [len(each.piece_ends) for each in segments]
    assert all(1 <= size <= pieces.MAX_PIECES_PER_SEGMENT for size in sizes)
    assert sum(sizes) == len(numbers)


def test_one_piece_repeated_for_ever_still_makes_bounded_segments():
    sizes = [len(each.piece_ends) for each in pieces.split(messages(["x"] * 1000))]
    assert sum(sizes) == 1000
    assert max(sizes) <= pieces.MAX_PIECES_PER_SEGMENT


@pytest.mark.slow
def test_a_piece_found_in_every_message_does_not_end_a_segment_at_each():
    """Whatever the hash of the common piece is."""
    for common in range(64):
        body = messages([n if n % 2 else f"common {common}" for n in range(2000)])
        assert 2000 / 64 < len(pieces.split(body)) < 2000 / 16


def test_an_edit_early_on_keeps_the_later_segments():
    names = [f"piece {n}" for n in range(2000)]
    before = {each.digest for each in pieces.split(messages(names))}
    after = {each.digest for each in pieces.split(messages([*names[:5], "new", *names[6:]]))}
    assert len(after - before) <= 2


def messages(names):
    """A body of as many pieces as there are names."""
    return b"".join(b'{"role":"%b"},' % str(name).encode() for name in names)


def test_a_later_turn_brings_only_new_text():
    *_, previous, last = agent_requests(40)
    known = set(cut(previous))
    new = [piece for piece in cut(last) if piece not in known]
    assert sum(map(len, new)) < 6_000
    assert len(last) > 100_000
