"""The contract with mitmproxy's core about responses.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import pytest
from h11._readers import ChunkedReader, ContentLengthReader, Http10Reader
from h11._receivebuffer import ReceiveBuffer
from mitmproxy import http, options
from mitmproxy.connection import Client, Server
from mitmproxy.proxy import context, events
from mitmproxy.proxy.layers.http import _events, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp

from addon.core import head_bounds, response_heads, response_reading

EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture
def upstream_layer():
    """An HTTP/1 layer that has sent a request upstream and waits for the response."""
    client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
    here = context.Context(client, options.Options())
    here.server = Server(address=("127.0.0.1", 3))
    layer = _http1.Http1Client(here)
    list(layer.handle_event(events.Start()))
    layer.stream_id, layer.request = 1, http.Request.make("POST", "http://127.0.0.1:3/")
    return layer


def receive(layer, data):
    """Feed bytes from upstream; give the HTTP events that came of it."""
    commands = layer.handle_event(events.DataReceived(layer.conn, data))
    return [command.event for command in commands if isinstance(command, ReceiveHttp)]


def statuses(received):
    return [e.response.status_code for e in received if isinstance(e, _events.ResponseHeaders)]


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_takes_an_interim_response_for_the_response(upstream_layer):
    assert statuses(receive(upstream_layer, EARLY_HINTS)) == [103]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("interim", [CONTINUE, EARLY_HINTS, CONTINUE + EARLY_HINTS])
def test_interim_responses_are_swallowed(upstream_layer, interim):
    assert statuses(receive(upstream_layer, interim + ANSWER)) == [200]


@pytest.mark.usefixtures("patched")
def test_interim_responses_may_come_in_pieces(upstream_layer):
    data = CONTINUE + EARLY_HINTS + ANSWER
    received = [
        event for i in range(len(data)) for event in receive(upstream_layer, data[i : i + 1])
    ]
    assert statuses(received) == [200]


INVALID_HEADS = [
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    b"HTTP/1.1 20 X\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\x00b\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\rb\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n",
]


@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("head", INVALID_HEADS)
def test_the_core_still_takes_a_head_that_is_not_valid(upstream_layer, head):
    assert len(statuses(receive(upstream_layer, head))) == 1


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("head", INVALID_HEADS)
def test_a_head_that_is_not_valid_is_a_protocol_error(upstream_layer, head):
    [error] = receive(upstream_layer, head)
    assert isinstance(error, _events.ResponseProtocolError)
    assert response_heads.find_reason(error.message)


def send_endless_response_head(layer):
    """Feed a response head that never ends until the layer gives up; return what it had taken."""
    for taken in range(0, 16 * head_bounds.MAX_HEAD_BYTES, 65536):
        data = b"HTTP/1.1 200 OK\r\nx: " if not taken else b"x" * 65536
        if any(isinstance(e, _events.ResponseProtocolError) for e in receive(layer, data)):
            return taken
    return None


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_buffers_a_response_head_without_end(upstream_layer):
    assert send_endless_response_head(upstream_layer) is None


@pytest.mark.usefixtures("patched")
def test_a_response_head_without_end_is_a_protocol_error(upstream_layer):
    taken = send_endless_response_head(upstream_layer)
    assert taken is not None
    assert taken <= head_bounds.MAX_HEAD_BYTES + 65536


MANY_LINES = b"HTTP/1.1 %d X\r\ncontent-length: 0\r\n" + b"a:\r\n" * 200 + b"\r\n"


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_takes_a_response_of_many_header_lines(upstream_layer):
    assert statuses(receive(upstream_layer, MANY_LINES % 200)) == [200]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("status", [103, 200])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_response_of_many_header_lines_is_a_protocol_error(upstream_layer, status, is_whole):
    sent = MANY_LINES % status
    [error] = receive(upstream_layer, sent if is_whole else sent[:-2])
    assert isinstance(error, _events.ResponseProtocolError)
    assert response_heads.find_reason(error.message) == "it has more than 200 header lines"


@pytest.mark.usefixtures("patched")
def test_a_response_of_200_header_lines_is_taken(upstream_layer):
    sent = MANY_LINES.replace(b"a:\r\n", b"", 1) % 200
    assert statuses(receive(upstream_layer, sent)) == [200]


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_waits_after_a_blank_line(upstream_layer):
    assert receive(upstream_layer, b"\r\n" + ANSWER) == []


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("blank", [b"\r\n", b"\n"])
def test_a_response_that_begins_with_a_blank_line_is_a_protocol_error(upstream_layer, blank):
    [error] = receive(upstream_layer, blank + ANSWER)
    assert response_heads.find_reason(error.message) == "it begins with a blank line"


def send_endless(layer, start, more):
    """Feed what follows a request until the layer gives up; return how much it had taken."""
    received, taken = receive(layer, start), 0
    while not received and taken < 16 * head_bounds.MAX_HEAD_BYTES:
        taken += len(more)
        received = receive(layer, more)
    [error] = received
    assert isinstance(error, _events.ResponseProtocolError)
    assert response_heads.find_reason(error.message)
    return taken


@pytest.mark.usefixtures("patched")
def test_an_interim_response_without_end_is_a_protocol_error(upstream_layer):
    taken = send_endless(upstream_layer, b"HTTP/1.1 100 Continue\r\nx: ", b"x" * 65536)
    assert taken <= head_bounds.MAX_HEAD_BYTES + 65536


@pytest.mark.usefixtures("patched")
def test_interim_responses_without_end_are_a_protocol_error(upstream_layer):
    taken = send_endless(upstream_layer, CONTINUE, EARLY_HINTS * 1000)
    assert taken <= response_reading.MAX_INTERIM_BYTES + 1000 * len(EARLY_HINTS)


@pytest.mark.usefixtures("patched")
def test_interim_responses_of_one_request_are_not_counted_for_the_next(upstream_layer):
    interim = EARLY_HINTS * (response_reading.MAX_INTERIM_BYTES // len(EARLY_HINTS) - 1)
    for stream_id in (1, 3):
        upstream_layer.stream_id = stream_id
        upstream_layer.request = http.Request.make("POST", "http://127.0.0.1:3/")
        upstream_layer.state = upstream_layer.read_headers
        assert statuses(receive(upstream_layer, interim + ANSWER)) == [200]


TRAILERS = b"2\r\nhi\r\n0\r\nx-checksum: 1\r\n\r\n"


def read_body(reader):
    buffer = ReceiveBuffer()
    buffer += TRAILERS
    return [reader(buffer) for _ in range(2)]


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_raises_on_trailers(upstream_layer):
    assert type(_http1.make_body_reader(None)) is ChunkedReader
    with pytest.raises(NotImplementedError, match="trailers"):
        receive(upstream_layer, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + TRAILERS)


MANY = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 1000


def count_pieces(received):
    return sum(isinstance(event, _events.ResponseData) for event in received)


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_makes_a_piece_of_every_chunk(upstream_layer):
    assert count_pieces(receive(upstream_layer, MANY)) == 1000


@pytest.mark.usefixtures("patched")
def test_what_one_read_brought_is_one_piece(upstream_layer):
    assert count_pieces(receive(upstream_layer, MANY)) == 1


@pytest.mark.usefixtures("patched")
def test_trailers_are_dropped(upstream_layer):
    received = receive(
        upstream_layer, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + TRAILERS
    )
    data = [event.data for event in received if isinstance(event, _events.ResponseData)]
    assert data == [b"hi"]
    assert isinstance(received[-1], _events.ResponseEndOfMessage)


@pytest.mark.usefixtures("patched")
def test_other_body_readers_are_the_cores():
    assert type(_http1.make_body_reader(3)) is ContentLengthReader
    assert type(_http1.make_body_reader(-1)) is Http10Reader
