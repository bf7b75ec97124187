"""The contract with mitmproxy about responses, which the forward proxy of a run has.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import pytest
from h11 import RemoteProtocolError
from h11._readers import ChunkedReader, ContentLengthReader, Http10Reader
from mitmproxy import http, options
from mitmproxy.connection import Client, Server
from mitmproxy.proxy import context, events
from mitmproxy.proxy.layers.http import _events, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp

from addon.forward import patches

EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.fixture
def mended(unpatched):
    patches.patch_responses()


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
def test_mitmproxy_still_takes_an_interim_response_for_the_response(upstream_layer):
    assert statuses(receive(upstream_layer, EARLY_HINTS)) == [103]


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("interim", [CONTINUE, EARLY_HINTS, CONTINUE + EARLY_HINTS])
def test_interim_responses_are_swallowed(upstream_layer, interim):
    assert statuses(receive(upstream_layer, interim + ANSWER)) == [200]


@pytest.mark.usefixtures("mended")
def test_interim_responses_may_come_in_pieces(upstream_layer):
    data = CONTINUE + EARLY_HINTS + ANSWER
    received = [
        event for i in range(len(data)) for event in receive(upstream_layer, data[i : i + 1])
    ]
    assert statuses(received) == [200]


TRAILERS = b"2\r\nhi\r\n0\r\nx-checksum: 1\r\n\r\n"


@pytest.mark.usefixtures("unpatched")
def test_mitmproxy_still_raises_on_trailers(upstream_layer):
    assert type(_http1.make_body_reader(None)) is ChunkedReader
    with pytest.raises(NotImplementedError, match="trailers"):
        receive(upstream_layer, IN_CHUNKS + TRAILERS)


MANY = IN_CHUNKS + b"1\r\nx\r\n" * 1000


def count_pieces(received):
    return sum(isinstance(event, _events.ResponseData) for event in received)


@pytest.mark.usefixtures("unpatched")
def test_mitmproxy_still_makes_a_piece_of_every_chunk(upstream_layer):
    assert count_pieces(receive(upstream_layer, MANY)) == 1000


@pytest.mark.usefixtures("mended")
def test_what_one_read_brought_is_one_piece(upstream_layer):
    assert count_pieces(receive(upstream_layer, MANY)) == 1


@pytest.mark.usefixtures("mended")
def test_trailers_are_dropped(upstream_layer):
    received = receive(upstream_layer, IN_CHUNKS + TRAILERS)
    data = [event.data for event in received if isinstance(event, _events.ResponseData)]
    assert data == [b"hi"]
    assert isinstance(received[-1], _events.ResponseEndOfMessage)


@pytest.mark.usefixtures("mended")
def test_what_is_no_body_is_an_error_behind_what_came_before(upstream_layer):
    data, error = receive(upstream_layer, IN_CHUNKS + b"2\r\nhi\r\nzz\r\n")[1:]
    assert data.data == b"hi"
    assert isinstance(error, _events.ResponseProtocolError)
    with pytest.raises(RemoteProtocolError):
        _http1.make_body_reader(None).read_eof()


@pytest.mark.usefixtures("mended")
def test_other_body_readers_are_the_cores():
    assert type(_http1.make_body_reader(3)) is ContentLengthReader
    assert type(_http1.make_body_reader(-1)) is Http10Reader


@pytest.mark.usefixtures("unpatched")
def test_mitmproxy_still_responds_to_faults_with_a_page():
    assert b"<html>" in _http1.make_error_response(400, "a header")


@pytest.mark.usefixtures("mended")
def test_errors_of_the_core_are_json_and_close_the_connection():
    head, _, body = _http1.make_error_response(400, 'bad "header"').partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head
    assert b"content-length: %d" % len(body) in head
    assert body == (
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"The request is not valid HTTP: there is a fault in a header line."}}'
    )
