"""Framing of bodies: what is written is read again, wherever it is cut."""

import itertools

import pytest
from hypothesis import given, strategies as st

from addon.http1 import framing
from addon.http1.framing import LAST_CHUNK, TO_END, Body

PARTS = st.lists(st.binary(min_size=1, max_size=300), max_size=6)
PLACES = st.lists(st.integers(0, 2000), max_size=8)


def feed(body: Body, data: bytes, places: list[int]) -> bytes:
    """Return what a body makes of data that is cut at these places."""
    edges = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    pieces = (data[a:b] for a, b in itertools.pairwise(edges))
    return b"".join(body.feed(piece) for piece in pieces)


@given(PARTS, st.binary(max_size=20), PLACES)
def test_a_body_in_chunks_is_read_as_it_was_written(
    parts: list[bytes], behind: bytes, places: list[int]
) -> None:
    written = b"".join(framing.frame(part, in_chunks=True) for part in parts) + LAST_CHUNK
    body = framing.read_body(None)
    assert feed(body, written, places) == b"".join(parts)
    assert body.is_whole
    assert body.fault is None
    assert body.feed(behind) == b""
    assert body.take_surplus() == behind


@given(st.binary(max_size=500), st.binary(max_size=20), PLACES)
def test_a_body_of_known_length_ends_where_it_said(
    content: bytes, behind: bytes, places: list[int]
) -> None:
    body = framing.read_body(len(content))
    assert feed(body, content + behind, places) == content
    assert body.is_whole
    assert body.take_surplus() == behind
    assert body.take_surplus() == b""


@given(st.binary(max_size=500), PLACES)
def test_a_body_to_the_end_of_its_connection_is_all_that_comes(
    content: bytes, places: list[int]
) -> None:
    body = framing.read_body(TO_END)
    assert feed(body, content, places) == content
    assert not body.is_whole
    assert body.take_surplus() == b""


@pytest.mark.parametrize("size", [0, 3, None])
def test_a_body_is_whole_at_once_only_where_it_is_empty(size: int | None) -> None:
    assert framing.read_body(size).is_whole is (size == 0)


@pytest.mark.parametrize(
    ("version", "value", "closes"),
    [
        (b"HTTP/1.1", None, False),
        (b"HTTP/1.1", b"Close", True),
        (b"HTTP/1.1", b"Keep-Alive, Close", True),
        (b"HTTP/1.0", None, True),
        (b"HTTP/1.0", b"keep-alive", False),
        (b"HTTP/1.0", b"x, keep-alive", False),
    ],
)
def test_a_message_says_whether_it_is_the_last(
    version: bytes, value: bytes | None, *, closes: bool
) -> None:
    found = {} if value is None else {b"connection": value}
    assert framing.says_close(version, found) is closes


def test_an_empty_part_is_no_last_chunk() -> None:
    assert framing.frame(b"", in_chunks=True) == b""
