import pytest
from h11 import Data, EndOfMessage, RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer
from hypothesis import given, strategies as st

from addon.core import chunked
from addon.core.chunked import ChunkedReader

END = b"0\r\n\r\n"


def frame(pieces, extension=b""):
    return b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces)


class Reading:
    """A reader fed with what a socket delivers, and what came of it."""

    def __init__(self):
        self.reader = ChunkedReader()
        self.buffer = ReceiveBuffer()
        self.pieces = []
        self.is_whole = False

    def feed(self, data):
        self.buffer += data
        while not self.is_whole and (event := self.reader(self.buffer)) is not None:
            if isinstance(event, Data):
                self.pieces.append(bytes(event.data))
            else:
                assert isinstance(event, EndOfMessage)
                self.is_whole = True

    @property
    def body(self):
        return b"".join(self.pieces)


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=20),
    st.lists(st.integers(1, 30)),
    st.sampled_from([b"", b";a", b';a="b"', b" ", b"\t;x=y"]),
    st.sampled_from([b"\r\n", b"x-checksum: 1\r\ny: \r\n\r\n"]),
)
def test_any_body_is_read_exactly_however_it_is_cut(pieces, cuts, extension, trailers):
    data = frame(pieces, extension) + b"0" + extension + b"\r\n" + trailers + b"the next message"
    reading = Reading()
    for cut in cuts:
        reading.feed(data[:cut])
        data = data[cut:]
    reading.feed(data)
    assert (reading.body, reading.is_whole) == (b"".join(pieces), True)
    assert bytes(reading.buffer) == b"the next message"
    assert b"" not in reading.pieces


def test_what_one_read_brings_is_one_piece():
    reading = Reading()
    reading.feed(frame([b"x"] * 1000))
    reading.feed(frame([b"y"] * 1000) + END)
    assert reading.pieces == [b"x" * 1000, b"y" * 1000]


def test_a_part_of_a_chunk_is_passed_on_without_waiting_for_the_rest():
    reading = Reading()
    for data in (b"5\r\nab", b"cde", b"\r", b"\n"):
        reading.feed(data)
    assert reading.pieces == [b"ab", b"cde"]


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
    reading = Reading()
    with pytest.raises(RemoteProtocolError):
        reading.feed(frame([b"good"]) + data)
    assert reading.body.startswith(b"good")
    assert reading.body in (b"good", b"goodhello")


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
    reading = Reading()
    with pytest.raises(RemoteProtocolError):
        reading.feed(data)


@pytest.mark.parametrize("extension", [b"", b";chunk-signature=" + b"a" * 64])
def test_framing_that_clients_send_does_not(extension):
    reading = Reading()
    size = 1 if not extension else 64
    for _ in range(100):
        reading.feed(frame([b"x" * size] * 1000, extension))
    assert len(reading.body) == size * 100_000


def test_a_connection_that_ends_within_a_body_is_an_error():
    with pytest.raises(RemoteProtocolError):
        ChunkedReader().read_eof()


@pytest.fixture
def rested():
    chunked.rest.take_s()


@pytest.mark.usefixtures("rested")
def test_a_read_of_usual_chunks_is_followed_by_no_rest():
    Reading().feed(frame([b"x"] * chunked.USUAL_CHUNKS))
    assert chunked.rest.take_s() == 0


@pytest.mark.usefixtures("rested")
@pytest.mark.parametrize("cut", [b"", b"1", b"1\r", b"1\r\n", b"1\r\nx", b"1\r\nx\r"])
def test_a_read_of_very_many_chunks_is_followed_by_one_rest(cut):
    Reading().feed(frame([b"x"] * 10_000) + cut)
    assert chunked.rest.take_s() == pytest.approx(0.2, rel=0.01)
    assert chunked.rest.take_s() == 0
