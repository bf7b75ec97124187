"""The contract with mitmproxy's core about requests.

When one of the ``still`` tests fails, mitmproxy has changed: see whether the patch can go.
"""

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from mitmproxy import http, options
from mitmproxy.connection import Client
from mitmproxy.net.http import http1
from mitmproxy.proxy import commands, context, events
from mitmproxy.proxy.layers.http import _events, _http1
from mitmproxy.proxy.layers.http._base import ReceiveHttp

from addon import request_heads
from addon.core import head_bounds, request_reading
from runtime.worker_board import Shared

REQUEST = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"


KIBI = 1024


def receive(layer, data):
    """Feed bytes to the layer, and answer each request at once; return its commands."""
    return drive(layer, events.DataReceived(layer.conn, data))


def drive(layer, event):
    seen = []
    for command in layer.handle_event(event):
        seen.append(command)
        if isinstance(command, ReceiveHttp) and isinstance(
            command.event, _events.RequestEndOfMessage
        ):
            stream_id, response = command.event.stream_id, http.Response.make(200)
            seen += drive(layer, _events.ResponseHeaders(stream_id, response, True))
            seen += drive(layer, _events.ResponseEndOfMessage(stream_id))
    return seen


def count_requests(seen):
    return sum(
        isinstance(each, ReceiveHttp) and isinstance(each.event, _events.RequestHeaders)
        for each in seen
    )


def find(seen, kind):
    return [each for each in seen if isinstance(each, kind)]


def send_endless(layer):
    """Feed a head that never ends until the layer closes; return what it had taken and the answer."""
    for taken in range(0, 16 * head_bounds.MAX_HEAD_BYTES, 65536):
        seen = receive(layer, b"x" * 65536 if taken else b"GET / HTTP/1.1\r\nx: ")
        if find(seen, commands.CloseConnection):
            return taken, seen[0].data
    return None, b""


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_deals_with_all_requests_of_a_read_at_once(layer):
    assert count_requests(receive(layer, REQUEST * 3)) == 3


@pytest.mark.usefixtures("patched")
def test_one_request_of_a_read_is_dealt_with_in_a_turn(layer, memory):
    seen = receive(layer, REQUEST * 3)
    for left in (2, 1, 0):
        assert count_requests(seen) == 1
        wakeups = find(seen, commands.RequestWakeup)
        assert (layer.conn in request_reading.waiting_for_turn) is bool(wakeups) is bool(left)
        assert memory.total_bytes == left * len(REQUEST)
        if wakeups:
            seen = drive(layer, events.Wakeup(wakeups[0]))


@pytest.mark.usefixtures("patched")
def test_what_comes_before_the_turn_is_kept_for_it(layer):
    [wakeup] = find(receive(layer, REQUEST * 2), commands.RequestWakeup)
    assert receive(layer, REQUEST) == []
    [again] = find(drive(layer, events.Wakeup(wakeup)), commands.RequestWakeup)
    assert count_requests(drive(layer, events.Wakeup(again))) == 1


@pytest.mark.usefixtures("patched")
def test_a_turn_that_comes_after_the_end_of_its_connection_does_nothing(layer):
    [wakeup] = find(receive(layer, REQUEST * 2), commands.RequestWakeup)
    drive(layer, events.ConnectionClosed(layer.conn))
    assert count_requests(drive(layer, events.Wakeup(wakeup))) == 0


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_waits_for_more_after_an_empty_line(layer):
    assert count_requests(receive(layer, b"\r\n" + REQUEST)) == 0


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("empty", [b"\r\n", b"\n", b"\r\n\n\r\n", b"\r\n" * 30_000])
def test_empty_lines_before_a_request_are_dropped(layer, empty):
    assert count_requests(receive(layer, empty[:1])) == 0
    assert count_requests(receive(layer, empty[1:] + REQUEST)) == 1


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_buffers_a_head_without_end(layer):
    assert send_endless(layer) == (None, b"")


@pytest.mark.usefixtures("patched")
def test_a_head_without_end_is_refused(layer):
    taken, answer = send_endless(layer)
    assert taken is not None
    assert taken <= head_bounds.MAX_HEAD_BYTES + 65536
    assert answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.usefixtures("patched")
def test_a_head_larger_than_the_setting_is_refused_and_counted(layer, heads):
    heads.largest_bytes = 4000
    [sent, _] = receive(layer, b"GET / HTTP/1.1\r\na: %b" % (b"x" * 4000))
    assert b"its head is larger than 4 KB" in sent.data
    assert heads._board.total(Shared.LARGE_HEADS_REFUSED) == 1


LARGE_HEADS = {
    "many lines": b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 201 + b"\r\n",
    "many bytes": b"GET / HTTP/1.1\r\n" + b"a: %b\r\n" % (b"x" * 1000) * 70 + b"\r\n",
    "a long path": b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * 16 * KIBI),
}


@pytest.mark.usefixtures("patched")
def test_a_query_may_be_longer_than_a_path(layer):
    query = b"sql=" + b"x" * 40 * KIBI
    assert (
        count_requests(receive(layer, b"GET /traces?%b HTTP/1.1\r\nhost: a\r\n\r\n" % query)) == 1
    )


@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("large", LARGE_HEADS)
def test_the_core_still_takes_a_large_head(layer, large):
    assert count_requests(receive(layer, LARGE_HEADS[large])) == 1


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("large", LARGE_HEADS)
def test_a_large_head_is_refused_before_it_is_parsed(layer, memory, large, is_whole):
    head = LARGE_HEADS[large] if is_whole else LARGE_HEADS[large][:-2]
    answer, close = receive(layer, head)
    assert answer.data.startswith(b"HTTP/1.1 431 ")
    assert b"x-taximeter-error: head_too_large\r\n" in answer.data
    assert close.half_close
    assert memory.total_bytes == 0


@pytest.mark.usefixtures("patched")
def test_what_comes_after_a_refused_head_is_thrown_away(layer, heads):
    receive(layer, LARGE_HEADS["many lines"])
    assert receive(layer, REQUEST) == []
    assert len(layer.buf) == 0
    assert heads.take_overdue(LATER_S) == [(layer.conn.id, True)]
    [close] = drive(layer, events.ConnectionClosed(layer.conn))
    assert isinstance(close, commands.CloseConnection)


@pytest.mark.usefixtures("patched")
def test_a_large_body_and_200_header_lines_make_no_large_head(layer):
    head = b"POST / HTTP/1.1\r\ncontent-length: 200000\r\n" + b"a:\r\n" * 199 + b"\r\n"
    assert count_requests(receive(layer, head + b"\n" * 200_000)) == 1


@pytest.mark.usefixtures("patched")
def test_a_client_that_speaks_tls_is_refused_at_once(layer):
    answer, close = receive(layer, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    assert answer.data.startswith(b"HTTP/1.1 400 ")
    assert b"use http://" in answer.data
    assert isinstance(close, commands.CloseConnection)


@pytest.mark.usefixtures("patched")
def test_heads_share_the_memory_of_request_bodies(make_layer, memory):
    memory.hold("a body", 8192 * KIBI - 60 * KIBI)
    first, second = make_layer(), make_layer()
    assert receive(first, b"GET / HTTP/1.1\r\nx: " + b"x" * 50 * KIBI) == []
    answer, close = receive(second, b"GET / HTTP/1.1\r\nx: " + b"x" * 50 * KIBI)
    assert answer.data.startswith(b"HTTP/1.1 503 ")
    body = json.loads(answer.data.partition(b"\r\n\r\n")[2])
    assert body["error"]["type"] == "overloaded_error"
    assert isinstance(close, commands.CloseConnection)


@pytest.mark.usefixtures("patched")
def test_a_head_takes_no_memory_once_its_client_has_left(layer, memory):
    receive(layer, b"GET / HTTP/1.1\r\nx: " + b"x" * 50 * KIBI)
    assert memory.total_bytes > 50 * KIBI
    seen = drive(layer, events.ConnectionClosed(layer.conn))
    assert memory.total_bytes == len(layer.buf) == 0
    assert find(seen, commands.Log) == []  # mitmproxy would quote the head


LATER_S = 1e12


@pytest.mark.usefixtures("patched")
def test_a_silent_connection_and_a_head_that_has_begun_are_awaited(layer, heads):
    heads.await_first(layer.conn.id)
    heads.await_first("silent")
    receive(layer, b"GET / HT")
    assert heads.take_overdue(0) == []
    assert heads.take_overdue(LATER_S) == [(layer.conn.id, True), ("silent", False)]
    assert heads.take_overdue(LATER_S) == []


@pytest.mark.usefixtures("patched")
def test_a_head_that_goes_on_slowly_is_awaited_since_it_began(layer, heads, monkeypatch):
    now_s = iter([10.0, 20.0, 30.0])
    monkeypatch.setattr(request_heads, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    for byte in b"GET":
        receive(layer, bytes([byte]))
    assert heads.take_overdue(11) == [(layer.conn.id, True)]


@pytest.mark.usefixtures("patched")
def test_nothing_is_awaited_between_requests(layer, heads):
    heads.await_first(layer.conn.id)
    receive(layer, REQUEST[:5])
    receive(layer, REQUEST[5:])
    assert heads.take_overdue(LATER_S) == []
    receive(layer, REQUEST[:5])
    assert heads.take_overdue(LATER_S) == [(layer.conn.id, True)]


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_responds_to_faults_with_a_page():
    assert b"<html>" in _http1.make_error_response(400, "a header")


@pytest.mark.usefixtures("patched")
def test_errors_of_the_core_are_json_and_close_the_connection():
    head, _, body = _http1.make_error_response(400, 'bad "header"').partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head
    assert b"content-length: %d" % len(body) in head
    assert body == (
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"The request is not valid HTTP: there is a fault in a header line."}}'
    )


UNCLEAR_HEADS = [
    [b"POST / HTTP/1.1", b"transfer-encoding: \x0bchunked"],
    [b"POST / HTTP/1.1", b"x-a: 1\x0c"],
    [b"POST / HTTP/1.1", b"x-a: 1\r"],
    [b"POST\x0b/\x0cHTTP/1.1", b"x-a: 1"],
]


@pytest.mark.usefixtures("unpatched")
@pytest.mark.parametrize("lines", UNCLEAR_HEADS)
def test_the_core_still_strips_control_characters_from_a_request_head(lines):
    request = http1.read_request_head(lines)
    assert (request.method, request.path) == ("POST", "/")
    assert list(request.headers.values()) in (["chunked"], ["1"])


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("lines", UNCLEAR_HEADS)
def test_a_request_head_with_control_characters_at_its_edges_is_refused(lines):
    with pytest.raises(ValueError, match="control characters"):
        http1.read_request_head(lines)
    assert b"x-taximeter-error: bad_header" in _http1.make_error_response(
        400, request_reading.BAD_HEAD
    )


ODD_FIRST_LINES = [
    b"post / HTTP/1.1",
    b"POST  / HTTP/1.1",
    b"POST\t/\tHTTP/1.1",
    b" POST / HTTP/1.1",
    b"POST / HTTP/2.0",
    b"POST / HTTP/0.9",
]


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_takes_odd_first_lines():
    requests = [http1.read_request_head([line, b"host: x"]) for line in ODD_FIRST_LINES]
    assert {(request.method, request.path) for request in requests} == {("POST", "/")}
    assert requests[0].data.method == b"post", "as an upstream would get it"


@pytest.mark.usefixtures("patched")
def test_an_odd_first_line_is_refused():
    for line in ODD_FIRST_LINES:
        with pytest.raises(ValueError, match="request line"):
            http1.read_request_head([line, b"host: x"])
    assert http1.read_request_head([b"VERSION-CONTROL / HTTP/1.0"]).method == "VERSION-CONTROL"


@pytest.mark.usefixtures("patched")
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=30).filter(lambda line: b"\n" not in line),
            st.sampled_from(
                [b"POST / HTTP/1.1", b"GET http://a:1/b HTTP/1.0", b"host: x", b" fold"]
            ),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_of_any_lines_comes_a_plain_request_or_a_refusal(lines):
    try:
        found = http1.read_request_head(lines)
    except ValueError:
        return
    assert found.data.method.isupper()
    assert not re.search(rb"[\x00-\x20\x7f]", found.data.path)


def make_context(opts=None):
    client = Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2), timestamp_start=0)
    return context.Context(client, opts or options.Options())


@pytest.fixture
def answering():
    """A layer whose client has sent its request and waits for the answer."""
    layer = _http1.Http1Server(make_context())
    list(layer.handle_event(events.Start()))
    layer.request = http.Request.make("POST", "http://127.0.0.1/")
    layer.state = layer.wait
    return layer


def send_early(layer):
    """Feed bytes until the layer closes; return what it had taken."""
    for taken in range(0, 4 * request_reading.MAX_EARLY_BYTES, 65536):
        sent = list(layer.handle_event(events.DataReceived(layer.conn, bytes(65536))))
        if sent:
            return taken, sent
    return None, []


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_keeps_what_comes_early_without_end(answering):
    assert send_early(answering) == (None, [])


@pytest.mark.usefixtures("patched")
def test_what_comes_early_is_bounded(answering):
    taken, (close, error) = send_early(answering)
    assert taken is not None
    assert taken <= request_reading.MAX_EARLY_BYTES
    assert isinstance(close, commands.CloseConnection)
    assert isinstance(error, ReceiveHttp)


@pytest.mark.usefixtures("patched")
def test_what_comes_early_is_kept_only_while_there_is_memory(answering, memory):
    memory.hold("a body", 8192 * KIBI - 100 * KIBI)
    taken, (close, _error) = send_early(answering)
    assert taken == 65536
    assert isinstance(close, commands.CloseConnection)
