import itertools

import pytest
from hypothesis import given, strategies as st

from addon.http1 import chunked
from addon.http1.chunked import InChunks

END = b"0\r\n\r\n"


def frame(pieces, extension=b""):
    return b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces)


def read(*received):
    """Return a body, and the pieces that it makes of what a socket delivers."""
    body = InChunks()
    pieces = [body.feed(data) for data in received]
    return body, [piece for piece in pieces if piece]


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=20),
    st.lists(st.integers(1, 30)),
    st.sampled_from([b"", b";a", b';a="b"', b" ", b"\t;x=y"]),
    st.sampled_from([b"\r\n", b"x-checksum: 1\r\ny: \r\n\r\n"]),
)
def test_any_body_is_read_exactly_however_it_is_cut(pieces, cuts, extension, trailers):
    data = frame(pieces, extension) + b"0" + extension + b"\r\n" + trailers + b"the next message"
    edges = [0, *itertools.accumulate(cuts), len(data)]
    body, found = read(*(data[a:b] for a, b in itertools.pairwise(edges)))
    assert (b"".join(found), body.is_whole, body.fault) == (b"".join(pieces), True, None)
    assert body.take_surplus() == b"the next message"


def test_what_one_read_brings_is_one_piece():
    body, pieces = read(frame([b"x"] * 1000), frame([b"y"] * 1000) + END)
    assert pieces == [b"x" * 1000, b"y" * 1000]
    assert body.is_whole


def test_a_part_of_a_chunk_is_passed_on_without_waiting_for_the_rest():
    assert read(b"5\r\nab", b"cde", b"\r", b"\n")[1] == [b"ab", b"cde"]


@pytest.mark.parametrize(
    "data",
    [
        b"XYZ\r\nbad\r\n",
        b"-5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"5\nhello\n",
        b"\r\n5\r\nhello\r\n",
        b"5;a\x00\r\nhello\r\n",
        b"5;a\rb\r\nhello\r\n",
        b"11111111111111111\r\nhello\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n\n",
        b"5\r\nhelloXX3\r\nabc\r\n",
        b"0\r\nno trailer\r\n\r\n",
        b"0\r\nx: a\x00b\r\n\r\n",
    ],
)
def test_what_is_no_chunked_body_is_an_error_after_what_came_before(data):
    body, pieces = read(frame([b"good"]) + data, frame([b"more"]))
    assert body.fault is not None
    assert pieces in ([b"good"], [b"goodhello"])
    assert not body.is_whole


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"1;" + b"a" * chunked.MAX_LINE_BYTES, id="a-line-without-end"),
        pytest.param(b"1;" + b"a" * chunked.MAX_LINE_BYTES + b"\r\nx\r\n", id="a-long-line"),
        pytest.param(b"1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n" * 5000, id="extensions"),
        pytest.param(b"0\r\nx: " + b"a" * chunked.MAX_TRAILER_BYTES, id="a-trailer-without-end"),
        pytest.param(
            b"0\r\n" + b"x: a\r\n" * chunked.MAX_TRAILER_BYTES + b"\r\n", id="many-trailers"
        ),
    ],
)
def test_absurd_framing_ends_the_body(data):
    assert read(data)[0].fault is not None
    assert read(b"zz\r\n")[0].fault == "a chunk header is not valid"


@pytest.mark.parametrize("extension", [b"", b";chunk-signature=" + b"a" * 64])
def test_framing_that_clients_send_does_not(extension):
    size = 1 if not extension else 64
    body, pieces = read(*[frame([b"x" * size] * 1000, extension)] * 100)
    assert body.fault is None
    assert len(b"".join(pieces)) == size * 100_000


@pytest.fixture
def rested():
    chunked.rest.take_s()


@pytest.mark.usefixtures("rested")
def test_a_read_of_usual_chunks_is_followed_by_no_rest():
    read(frame([b"x"] * chunked.USUAL_CHUNKS))
    assert chunked.rest.take_s() == 0


@pytest.mark.usefixtures("rested")
@pytest.mark.parametrize("cut", [b"", b"1", b"1\r", b"1\r\n", b"1\r\nx", b"1\r\nx\r"])
def test_a_read_of_very_many_chunks_is_followed_by_one_rest(cut):
    read(frame([b"x"] * 10_000) + cut)
    assert chunked.rest.take_s() == pytest.approx(0.2, rel=0.01)
    assert chunked.rest.take_s() == 0


def test_very_many_chunks_are_costly_to_read():
    assert chunked.is_costly(frame([b"x"] * (chunked.USUAL_CHUNKS + 1)))
    assert not chunked.is_costly(frame([bytes(100_000)]))
