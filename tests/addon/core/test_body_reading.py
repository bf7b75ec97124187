"""The contract with mitmproxy's core about bodies of requests.

When the ``still`` test fails, mitmproxy has changed: see whether the patch can go.
"""

import asyncio
import json
from types import SimpleNamespace

import pytest
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import _events
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.server import ConnectionHandler, ConnectionIO

from addon.core import body_reading, chunked, request_reading

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
TINY_CHUNKS = b"1\r\nx\r\n" * 10_000


@pytest.fixture
def clock(monkeypatch):
    """The time of the module, which stands still until a test moves it."""
    now_s = [100.0]
    monkeypatch.setattr(chunked, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    return now_s


def receive(layer, data):
    """Feed bytes to the layer; return its commands."""
    return list(layer.handle_event(events.DataReceived(layer.conn, data)))


def body_of(seen):
    return b"".join(
        each.event.data
        for each in seen
        if isinstance(each, ReceiveHttp) and isinstance(each.event, _events.RequestData)
    )


def find(seen, kind):
    return [each for each in seen if isinstance(each, kind)]


BAD_CHUNKS = [b"+2\r\nhi\r\n", b"0x2\r\nhi\r\n", b"zz\r\n", b"2\nhi\n", b"1" * 40 + b"\r\n"]


@pytest.mark.usefixtures("unpatched")
def test_the_core_still_closes_without_a_word_on_a_bad_chunk(layer):
    seen = receive(layer, HEAD + BAD_CHUNKS[2])
    assert find(seen, commands.CloseConnection)
    assert find(seen, commands.SendData) == []


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize("bad", BAD_CHUNKS)
@pytest.mark.parametrize("before", [b"", b"1\r\nx\r\n"])
def test_the_client_of_a_bad_chunk_is_told_so(layer, bad, before):
    seen = receive(layer, HEAD + before + bad)
    [answer] = find(seen, commands.SendData)
    head, _, body = answer.data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"x-taximeter-error: protocol_error" in head
    assert "fault in its body" in json.loads(body)["error"]["message"]
    [close] = find(seen, commands.CloseConnection)
    assert seen.index(answer) < seen.index(close)


@pytest.mark.usefixtures("patched")
def test_a_client_that_leaves_within_a_chunk_is_told_nothing(layer):
    receive(layer, HEAD + b"5\r\nx")
    seen = list(layer.handle_event(events.ConnectionClosed(layer.conn)))
    assert find(seen, commands.SendData) == []
    assert find(seen, commands.CloseConnection)


@pytest.mark.usefixtures("patched")
def test_what_is_left_of_a_held_body_is_known_until_it_is_whole(layer):
    left = []
    for data in (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n", b"12", b"345"):
        receive(layer, data)
        left.append(body_reading.left_bytes.get(layer.conn))
    assert left == [5, 3, None]


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(
    ("framing", "is_passed_on"),
    [(b"content-length: 500", True), (b"transfer-encoding: chunked", False)],
)
def test_nothing_is_noted_of_a_body_that_is_passed_on_or_in_chunks(layer, framing, is_passed_on):
    receive(layer, b"POST / HTTP/1.1\r\nhost: x\r\n" + framing + b"\r\n\r\n")
    layer.request.stream = is_passed_on
    receive(layer, b"2\r\nhi\r\n")
    assert layer.conn not in body_reading.left_bytes


@pytest.mark.usefixtures("patched")
def test_what_a_refused_client_sends_is_thrown_away_unread(layer):
    receive(layer, HEAD)
    request_reading.refused.add(layer.conn)
    assert receive(layer, b"no chunks at all" + TINY_CHUNKS) == []
    assert len(layer.buf) == 0
    assert chunked.rest.take_s() == 0


@pytest.mark.usefixtures("patched")
def test_what_a_client_sends_after_its_last_response_is_not_kept(layer):
    receive(layer, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    request_reading.refused.add(layer.conn)
    assert receive(layer, bytes(2 * request_reading.MAX_EARLY_BYTES)) == []
    assert len(layer.buf) == 0


def receive_costly(layer):
    receive(layer, HEAD + TINY_CHUNKS)
    return chunked.rest.take_s()


@pytest.mark.usefixtures("patched")
def test_tiny_chunks_on_a_new_connection_wait_for_those_on_another(make_layer, clock):
    rest_s = receive_costly(make_layer())
    second, third = make_layer(), make_layer()
    wakeups = {}
    for layer in (second, third):
        seen = receive(layer, HEAD + TINY_CHUNKS)
        assert body_of(seen) == b""
        [wakeups[layer]] = find(seen, commands.RequestWakeup)
        assert wakeups[layer].delay == pytest.approx(rest_s)
    assert receive(second, b"1\r\ny\r\n") == []
    clock[0] += rest_s
    assert body_of(second.handle_event(events.Wakeup(wakeups[second]))) == b"x" * 10_000 + b"y"
    [again] = third.handle_event(events.Wakeup(wakeups[third]))
    assert again.delay == pytest.approx(rest_s, rel=0.01)
    clock[0] += again.delay
    assert body_of(third.handle_event(events.Wakeup(again))) == b"x" * 10_000


@pytest.mark.usefixtures("patched", "clock")
def test_a_body_in_usual_chunks_waits_for_nobody(make_layer):
    receive_costly(make_layer())
    assert body_of(receive(make_layer(), HEAD + b"3e8\r\n%b\r\n" % bytes(1000) * 10)) == bytes(
        10_000
    )


@pytest.mark.usefixtures("patched", "clock")
def test_a_client_that_leaves_while_it_waits_is_forgotten(make_layer):
    receive_costly(make_layer())
    layer = make_layer()
    [wakeup] = find(receive(layer, HEAD + TINY_CHUNKS), commands.RequestWakeup)
    list(layer.handle_event(events.ConnectionClosed(layer.conn)))
    assert layer.conn not in body_reading.postponed
    assert list(layer.handle_event(events.Wakeup(wakeup))) == []


class Handler(ConnectionHandler):
    async def handle_hook(self, hook):
        raise AssertionError(hook)


@pytest.mark.usefixtures("patched")
async def test_no_more_is_read_from_a_client_that_waits(layer, monkeypatch):
    handler = Handler(layer.context)
    handler.transports[handler.client] = ConnectionIO(
        reader=asyncio.StreamReader(), handler=asyncio.current_task()
    )
    looks = []

    async def look_again(seconds):
        looks.append(seconds)
        if len(looks) == 3:
            body_reading.postponed.discard(handler.client)

    monkeypatch.setattr(asyncio, "sleep", look_again)
    body_reading.postponed.add(handler.client)
    await handler.drain_writers()
    assert len(looks) == 3
