"""Responses, and ends of the upstream."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from mitmproxy import ctx, http
from mitmproxy.connection import ConnectionState, Server
from mitmproxy.proxy import commands, events, layer as mitmproxy_layer
from mitmproxy.proxy.layers.tls import ServerTLSLayer

from addon.core import response_heads
from addon.http1.chooser import ChooseHttp1
from addon.http1.client_side import LARGEST_JOINED_BYTES
from addon.http1.layer import Http1Layer
from addon.http1.upstream import TunnelledUpstream
from tests.addon.core.conftest import Policy
from tests.addon.http1.conftest import Peers, run_hook
from tests.addon.stand_ins import StandInHandler

REQUEST = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi"
RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
TO_END = b"HTTP/1.1 200 OK\r\nx-a: 1\r\n\r\n"


def stream(flow: Any) -> None:
    flow.response.stream = True


@pytest.fixture
def asking(peers: Peers) -> Peers:
    """Peers whose client waits for a response, which is passed on as it comes."""
    peers.addon.on["responseheaders"] = stream
    peers.send(REQUEST)
    peers.open()
    return peers


def message_of(peers: Peers) -> str:
    [flow] = peers.addon.flows
    return str(flow.error.msg)


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_response_comes_back_however_it_comes(
    peers: Peers, step: int, *, is_streamed: bool
) -> None:
    if is_streamed:
        peers.addon.on["responseheaders"] = stream
    peers.send(REQUEST)
    peers.open()
    for start in range(0, len(RESPONSE), step):
        peers.respond(RESPONSE[start : start + step])
        if not is_streamed and start + step < len(RESPONSE):
            assert peers.sent == []
    assert b"".join(peers.sent) == RESPONSE
    assert peers.addon.ran == ["requestheaders", "request", "responseheaders", "response"]
    [flow] = peers.addon.flows
    assert flow.response.content == (None if is_streamed else b"hello")
    assert not flow.live


def test_the_next_call_uses_the_same_connection(asking: Peers) -> None:
    asking.respond(RESPONSE)
    asking.send(REQUEST)
    asking.respond(RESPONSE)
    assert b"".join(asking.sent) == RESPONSE * 2
    assert len(asking.opening) == 1


def test_a_call_to_another_destination_has_a_connection_of_its_own(asking: Peers) -> None:
    asking.respond(RESPONSE)

    def elsewhere(flow: Any) -> None:
        flow.request.data.port = 4

    asking.addon.on["requestheaders"] = elsewhere
    asking.send(REQUEST)
    assert [each.connection.address for each in asking.opening] == [
        ("127.0.0.1", 3),
        ("127.0.0.1", 4),
    ]


@pytest.mark.parametrize(
    "interim", [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 X\r\na: 1\r\n\r\n"]
)
def test_interim_responses_are_swallowed_and_counted_for_their_call_alone(
    asking: Peers, interim: bytes
) -> None:
    for _ in range(2):
        asking.respond(interim * 1500)
        asking.respond(RESPONSE)
        asking.send(REQUEST)
    assert b"".join(asking.sent) == RESPONSE * 2


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 101 X\r\n\r\n", b"HTTP/1.1 20 X\r\n\r\n", b"\r\n" + RESPONSE]
)
def test_a_head_that_is_not_valid_is_told_to_the_addon_and_never_to_the_client(
    asking: Peers, head: bytes
) -> None:
    asking.respond(head)
    assert response_heads.find_reason(message_of(asking))
    assert asking.sent[0].startswith(b"HTTP/1.1 502 ")
    assert asking.is_closed
    assert not asking.has_upstream


def test_what_one_read_brought_is_one_write(asking: Peers) -> None:
    asking.respond(IN_CHUNKS + b"1\r\nx\r\n" * 1000)
    assert asking.sent == [IN_CHUNKS + b"3e8\r\n" + b"x" * 1000 + b"\r\n"]


def test_trailers_are_dropped_and_what_ends_a_body_comes_after_the_hook(asking: Peers) -> None:
    seen: list[int] = []
    asking.addon.on["response"] = lambda _flow: seen.append(len(asking.sent))
    asking.respond(IN_CHUNKS + b"2\r\nhi\r\n0\r\nx-checksum: 1\r\n\r\n")
    assert b"".join(asking.sent) == IN_CHUNKS + b"2\r\nhi\r\n0\r\n\r\n"
    assert seen == [0]  # a generator: what is sent is counted when all is
    assert asking.sent[-1] == b"0\r\n\r\n"


def test_an_addon_may_change_and_end_a_streamed_response(asking: Peers) -> None:
    def passed(data: bytes) -> list[bytes]:
        return [data.upper()] if data else [b"!"]

    asking.addon.on["responseheaders"] = lambda flow: setattr(flow.response, "stream", passed)
    asking.respond(IN_CHUNKS + b"2\r\nhi\r\n")
    asking.respond(b"0\r\n\r\n")
    assert b"".join(asking.sent) == IN_CHUNKS + b"2\r\nHI\r\n" + b"1\r\n!\r\n0\r\n\r\n"


def test_a_head_and_its_body_are_sent_in_one_write_unless_they_are_large(asking: Peers) -> None:
    body = bytes(LARGEST_JOINED_BYTES)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body)
    asking.respond(head + body)
    assert asking.sent == [head, body]
    asking.sent.clear()
    asking.send(REQUEST)
    asking.respond(RESPONSE)
    assert asking.sent == [RESPONSE]


def test_a_large_request_is_not_copied_to_be_sent_in_one_write(peers: Peers) -> None:
    body = bytes(LARGEST_JOINED_BYTES + 1)
    head = b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    peers.send(head + body)
    peers.open()
    assert peers.upstream_sent == [head, body]


@pytest.mark.parametrize(
    ("method", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304), (b"HEAD", 404)]
)
def test_a_response_without_a_body_ends_with_its_head(
    peers: Peers, method: bytes, status: int
) -> None:
    peers.addon.on["responseheaders"] = stream
    peers.send(b"%b / HTTP/1.1\r\nhost: x\r\n\r\n" % method)
    peers.open()
    peers.respond(b"HTTP/1.1 %d X\r\ncontent-length: 5\r\n\r\n" % status)
    assert b"".join(peers.sent) == b"HTTP/1.1 %d X\r\ncontent-length: 5\r\n\r\n" % status
    assert peers.addon.ran[-1] == "response"


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_response_that_ends_with_its_connection_ends_the_clients_too(
    peers: Peers, version: bytes
) -> None:
    peers.addon.on["responseheaders"] = stream
    peers.send(b"GET / HTTP/%b\r\nhost: x\r\n\r\n" % version)
    peers.open()
    peers.respond(TO_END + b"hel")
    peers.respond(b"lo")
    assert not peers.is_closed
    peers.end_upstream()
    assert b"".join(peers.sent) == TO_END + b"hello"
    assert peers.addon.ran[-1] == "response"
    assert peers.is_closed


@pytest.mark.parametrize("value", [b"close", b"Keep-Alive, Close"])
@pytest.mark.parametrize("by", ["client", "upstream"])
def test_a_last_call_closes_both_connections(peers: Peers, by: str, value: bytes) -> None:
    field = b"connection: %b\r\n" % value
    peers.send(b"GET / HTTP/1.1\r\nhost: x\r\n%b\r\n" % (field if by == "client" else b""))
    peers.open()
    last = field if by == "upstream" else b""
    peers.respond(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n%b\r\n" % last)
    assert peers.is_closed
    assert not peers.has_upstream


# -- ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 20"])
def test_an_upstream_that_ends_before_a_response_is_a_502(asking: Peers, sent: bytes) -> None:
    if sent:
        asking.respond(sent)
    asking.end_upstream()
    assert asking.sent[0].startswith(b"HTTP/1.1 502 ")
    assert asking.addon.ran[-1] == "error"
    assert message_of(asking).startswith("unexpected server" if sent else "server closed")
    assert asking.is_closed


@pytest.mark.parametrize(
    "response", [RESPONSE[:-1], IN_CHUNKS + b"5\r\nhel", IN_CHUNKS + b"5\r\nhello\r\n"]
)
def test_an_upstream_that_ends_within_a_body_cuts_the_clients_connection(
    asking: Peers, response: bytes
) -> None:
    asking.respond(response)
    asking.end_upstream()
    assert b"hel" in b"".join(asking.sent)
    assert b"502" not in b"".join(asking.sent)
    assert asking.is_closed
    assert asking.addon.ran[-1] == "error"


def test_a_bad_chunk_of_an_upstream_is_a_cut_behind_what_came_before(asking: Peers) -> None:
    asking.respond(IN_CHUNKS + b"2\r\nhi\r\nzz\r\n")
    assert asking.sent == [IN_CHUNKS + b"2\r\nhi\r\n"]
    assert asking.is_closed
    assert message_of(asking).startswith("HTTP/1 protocol error")


def test_an_upstream_that_cannot_be_reached_is_told_to_the_addon_before_the_client(
    peers: Peers,
) -> None:
    peers.addon.on["error"] = lambda _flow: peers.sent.append(b"the addon first")
    peers.send(REQUEST)
    peers.open("connection refused")
    assert peers.sent[0] == b"the addon first"
    assert peers.sent[1].startswith(b"HTTP/1.1 502 ")
    assert message_of(peers) == "connection refused"
    [flow] = peers.addon.flows
    assert flow.server_conn.timestamp_start is None  # nothing was sent


def test_the_client_of_a_failed_call_that_an_addon_has_answered_hears_nothing_more(
    peers: Peers,
) -> None:
    def answer(_flow: Any) -> None:
        peers.client.state = ConnectionState.CAN_READ

    peers.addon.on["error"] = answer
    peers.send(REQUEST)
    peers.open("connection refused")
    assert peers.sent == []
    assert peers.find(commands.CloseConnection)[0].connection is peers.upstream  # type: ignore[attr-defined]


def test_an_upstream_that_ends_between_calls_is_connected_anew(asking: Peers) -> None:
    asking.respond(RESPONSE)
    asking.end_upstream()
    assert not asking.is_closed
    asking.send(REQUEST)
    assert len(asking.opening) == 2


def test_an_upstream_that_ends_while_a_hook_waits_is_closed_and_connected_anew(
    asking: Peers,
) -> None:
    async def wait(_flow: Any) -> None:
        """Take until the upstream has ended."""

    asking.respond(RESPONSE)
    asking.addon.on["requestheaders"] = wait
    [hook] = asking.send(REQUEST)
    [work] = hook.args()  # type: ignore[attr-defined]
    asyncio.run(work)
    before = asking.upstream
    asking.end_upstream()
    run_hook(asking, hook)  # type: ignore[arg-type]
    assert len(asking.opening) == 2
    assert before.state is ConnectionState.CLOSED
    asking.open()
    asking.respond(RESPONSE)
    assert b"".join(asking.sent) == RESPONSE * 2


@pytest.mark.parametrize(
    "when", ["before the request", "after the response", "behind the response"]
)
def test_an_upstream_that_sends_what_nobody_asked_for_serves_no_other_call(
    asking: Peers, when: str
) -> None:
    asking.respond(RESPONSE + (b"x" if when == "behind the response" else b""))
    if when == "after the response":
        asking.respond(RESPONSE)
    elif when == "before the request":
        asking.respond(b"x")
    assert not asking.has_upstream
    asking.send(REQUEST)
    assert len(asking.opening) == 2
    assert b"".join(asking.sent) == RESPONSE


# -- responses before the request is whole ------------------------------------------------------------


@pytest.fixture
def uploading(peers: Peers) -> Peers:
    """Peers whose client has sent half of a request that is passed on as it comes."""
    peers.addon.on["requestheaders"] = lambda flow: setattr(flow.request, "stream", True)
    peers.addon.on["responseheaders"] = stream
    peers.send(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nab")
    peers.open()
    return peers


def test_the_rest_of_a_request_goes_on_behind_an_early_response(uploading: Peers) -> None:
    uploading.respond(RESPONSE)
    assert b"".join(uploading.sent) == RESPONSE
    uploading.send(b"cd" + REQUEST)
    assert b"".join(uploading.upstream_sent).endswith(b"\r\n\r\nabcd")
    uploading.wake()
    assert uploading.addon.ran.count("requestheaders") == 2


def test_an_upstream_that_ends_behind_an_early_response_does_not_reset_the_client(
    uploading: Peers,
) -> None:
    uploading.respond(RESPONSE)
    uploading.end_upstream()
    assert b"".join(uploading.sent) == RESPONSE
    assert uploading.lingers
    assert uploading.send(b"cd" + REQUEST) == []
    assert "error" not in uploading.addon.ran
    uploading.leave()
    assert uploading.is_closed


def test_an_early_response_that_ends_with_its_connection_is_ended_for_the_client_too(
    uploading: Peers,
) -> None:
    uploading.respond(b"HTTP/1.1 413 Too large\r\n\r\nno")
    uploading.end_upstream()
    assert uploading.lingers
    assert uploading.addon.ran == ["requestheaders", "responseheaders", "response"]


def test_an_upstream_that_ends_before_a_request_is_whole_does_not_reset_the_client(
    uploading: Peers,
) -> None:
    uploading.end_upstream()
    assert uploading.sent[0].startswith(b"HTTP/1.1 502 ")
    assert uploading.lingers


def test_what_an_upstream_sends_behind_an_early_response_takes_no_memory(uploading: Peers) -> None:
    uploading.respond(RESPONSE)
    for _ in range(10):
        uploading.respond(bytes(65536))
    [upstream] = uploading.layer.upstreams
    assert len(upstream.buffer) <= 10
    uploading.send(b"cd" + REQUEST)
    assert not uploading.has_upstream


def test_an_addon_may_kill_a_streamed_request_at_its_end(uploading: Peers) -> None:
    uploading.addon.on["request"] = lambda flow: flow.kill()
    uploading.send(b"cd")
    assert uploading.addon.ran[-1] == "error"
    assert uploading.is_closed
    assert not uploading.has_upstream


def test_a_client_that_leaves_behind_an_early_response_has_had_it(uploading: Peers) -> None:
    uploading.respond(RESPONSE)
    uploading.leave()
    assert uploading.addon.ran == ["requestheaders", "responseheaders", "response"]
    assert not uploading.has_upstream


# -- TLS, and the end of a connection -----------------------------------------------------------------


def test_an_upstream_by_tls_is_opened_within_mitmproxys_layer(
    make_peers: Callable[..., Peers],
) -> None:
    peers = make_peers()
    peers.layer.context.server.tls = True
    peers.addon.on["requestheaders"] = lambda flow: setattr(
        flow.request.data, "host", "api.example"
    )
    peers.send(REQUEST)
    [upstream] = peers.layer.upstreams
    assert isinstance(upstream, TunnelledUpstream)
    assert isinstance(upstream._outermost, ServerTLSLayer)
    assert upstream.connection.address == ("api.example", 3)
    assert upstream.connection.sni == "api.example"
    peers.open("connection refused")
    assert peers.sent[0].startswith(b"HTTP/1.1 502 ")


def test_an_upstream_behind_an_http_proxy_is_asked_for_by_connect(peers: Peers) -> None:
    def through_proxy(flow: Any) -> None:
        flow.server_conn = Server(address=("api.example", 80))
        flow.server_conn.via = ("http", ("proxy.example", 3128))

    peers.addon.on["requestheaders"] = through_proxy
    peers.send(REQUEST)
    assert peers.upstream.address == ("proxy.example", 3128)
    [hook] = peers.open()
    assert hook.name == "http_connect_upstream"  # type: ignore[attr-defined]
    run_hook(peers, hook)  # type: ignore[arg-type]
    assert peers.upstream_sent.pop().startswith(b"CONNECT 127.0.0.1:3 HTTP/1.1\r\n")
    peers.respond(b"HTTP/1.1 200 Connection established\r\n\r\n")
    assert peers.upstream_sent == [REQUEST]
    peers.respond(RESPONSE)
    assert peers.sent == [RESPONSE]
    peers.send(REQUEST)  # by the same tunnel
    assert len(peers.opening) == 1
    peers.end_upstream()
    assert peers.sent[1].startswith(b"HTTP/1.1 502 ")


def test_a_proxy_that_refuses_is_an_upstream_that_cannot_be_reached(peers: Peers) -> None:
    def through_proxy(flow: Any) -> None:
        flow.server_conn = Server(address=("api.example", 80))
        flow.server_conn.via = ("http", ("proxy.example", 3128))

    peers.addon.on["requestheaders"] = through_proxy
    peers.send(REQUEST)
    [hook] = peers.open()
    run_hook(peers, hook)  # type: ignore[arg-type]
    peers.respond(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
    assert peers.sent[0].startswith(b"HTTP/1.1 502 ")
    assert "refused HTTP CONNECT request: 407" in message_of(peers)


async def test_a_connection_that_has_ended_leaves_nothing_to_the_garbage_collector(
    make_peers: Callable[..., Peers],
) -> None:
    peers = make_peers()
    proxyserver = ctx.master.addons.get("proxyserver")
    handler = StandInHandler(peers.layer.context)
    handler.layer = peers.layer
    proxyserver.connections[peers.client.id] = handler
    peers.send(REQUEST)
    peers.open()
    peers.respond(RESPONSE)
    kept: list[weakref.ref[Any]] = [
        weakref.ref(peers.layer),
        weakref.ref(next(iter(peers.layer.upstreams))),
    ]
    gc.collect()
    gc.disable()
    try:
        peers.leave()
        ChooseHttp1("nextlayer").client_disconnected(peers.client)
        handler.layer.handle_event(events.Start())  # what comes late concerns nobody
        peers.layer = None  # type: ignore[assignment]
        assert [each() for each in kept] == [None, None]
    finally:
        gc.enable()
        handler.close_all()


def test_the_layer_is_chosen_whatever_another_addon_chose(policy: Policy, peers: Peers) -> None:
    here = peers.layer.context
    chosen = mitmproxy_layer.NextLayer(here)
    before = chosen.layer = Http1Layer(here)
    ChooseHttp1("nextlayer").next_layer(chosen)
    assert isinstance(chosen.layer, Http1Layer)
    assert chosen.layer is not before
    assert before not in here.layers


def test_a_whole_response_of_a_flow_may_be_in_chunks(peers: Peers) -> None:
    made = http.Response.make(200, b"hi", {"transfer-encoding": "chunked"})
    made.headers.pop("content-length", None)
    peers.addon.on["request"] = lambda flow: setattr(flow, "response", made)
    peers.send(REQUEST)
    assert peers.sent[0].endswith(b"\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
