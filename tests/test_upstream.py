"""The scripted upstream and the raw client do on the wire what the live tests rely on."""

import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import trustme

from tests.rawclient import Cut, RawClient, request
from tests.upstream import (
    CLOSE,
    PATIENCE_S,
    READ_BODY,
    RESET,
    STALL,
    Gate,
    Script,
    Upstream,
    answer,
    chunk,
    chunked,
    cut_sse,
    head,
    last_chunk,
    message_events,
    refusing_address,
    sse,
    wait_until,
)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture
def client(upstream: Upstream) -> Iterator[RawClient]:
    with RawClient(("127.0.0.1", upstream.port)) as connected:
        yield connected


def post(body: bytes = b"{}") -> bytes:
    return request("POST", "/v1/messages", [("Host", "x")], body)


def test_a_request_is_kept_exactly_as_it_came(upstream: Upstream, client: RawClient) -> None:
    sent = request("POST", "/a?b=%20", [("Host", "x"), ("X-Odd", "1"), ("x-odd", "2")], b"abc")
    client.exchange(sent)
    [seen] = upstream.requests
    assert (seen.method, seen.target, bytes(seen.body)) == ("POST", "/a?b=%20", b"abc")
    assert seen.head == sent[:-3]
    assert seen.headers[:3] == [("Host", "x"), ("X-Odd", "1"), ("x-odd", "2")]
    assert seen.framing == "length"
    assert seen.answered.wait(PATIENCE_S)


def test_a_chunked_request_is_joined_and_its_framing_kept(
    upstream: Upstream, client: RawClient
) -> None:
    client.send(request("POST", "/", [("transfer-encoding", "chunked")]))
    client.send_chunk(b"abc")
    client.send_chunk(b"de")
    client.send(last_chunk([("x-sum", "5")]))
    assert client.read_response().status == 200
    [seen] = upstream.requests
    assert (bytes(seen.body), seen.chunk_sizes, seen.trailers) == (
        b"abcde",
        [3, 2],
        [("x-sum", "5")],
    )


def test_several_requests_on_one_connection_are_answered_in_order(
    upstream: Upstream, client: RawClient
) -> None:
    upstream.enqueue(answer(200, b"one"), answer(404, b"two"))
    first, second = client.exchange(post()), client.exchange(post())
    assert [first.body, second.status] == [b"one", 404]
    assert [seen.connection for seen in upstream.requests] == [1, 1]


def test_chunks_and_trailers_come_with_the_borders_of_the_script(
    upstream: Upstream, client: RawClient
) -> None:
    upstream.enqueue(chunked(200, [b"a", b"bcd"], trailers=[("x-end", "1")]))
    response = client.exchange(post())
    assert (response.chunks, response.trailers) == ([b"a", b"bcd"], [("x-end", "1")])


def test_a_body_can_end_with_the_connection(upstream: Upstream, client: RawClient) -> None:
    upstream.enqueue(answer(200, b"all of it", framing="close"))
    assert client.exchange(post()).body == b"all of it"


def test_interim_responses_come_before_the_final_one(upstream: Upstream, client: RawClient) -> None:
    upstream.enqueue(answer(200, b"{}", interim=[head(100), head(103, [("link", "</x>")])]))
    response = client.exchange(post())
    assert [interim.status for interim in response.interim] == [100, 103]
    assert response.status == 200


def test_a_gate_holds_the_stream_until_the_test_opens_it(
    upstream: Upstream, client: RawClient
) -> None:
    gate = Gate()
    upstream.enqueue(sse([b"first", gate, b"second"]))
    client.send(post())
    response = client.read_response_head()
    pieces = client.iter_body(response)
    assert next(pieces) == b"first"
    gate.wait_reached()
    assert not upstream.requests[0].answered.is_set()
    gate.open()
    assert list(pieces) == [b"second"]


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_cut_stream_is_seen_as_cut(upstream: Upstream, client: RawClient, end) -> None:
    gate = Gate()
    upstream.enqueue(cut_sse([b"part", gate], end))
    client.send(post())
    response = client.read_response_head()
    pieces = client.iter_body(response)
    assert next(pieces) == b"part"
    gate.open()
    with pytest.raises(Cut):
        next(pieces)


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_connection_can_end_without_any_answer(upstream: Upstream, client, end) -> None:
    upstream.enqueue(Script((end,)))
    with pytest.raises(Cut):
        client.exchange(post())


def test_garbage_is_sent_as_it_is(upstream: Upstream, client: RawClient) -> None:
    upstream.enqueue(Script((b"not http at all", CLOSE)))
    client.send(post())
    assert client.read_to_end() == b"not http at all"


def test_an_early_script_answers_before_the_body_is_there(
    upstream: Upstream, client: RawClient
) -> None:
    upstream.enqueue(answer(413, b"too large", early=True).then(READ_BODY))
    client.send(request("POST", "/", [("content-length", "10")]) + b"12345")
    assert client.read_response().status == 413
    client.send(b"67890")
    assert upstream.wait_for_requests(1)[0].body == b"1234567890"


def test_the_arrival_of_a_body_can_be_watched(upstream: Upstream, client: RawClient) -> None:
    client.send(request("POST", "/", [("content-length", "10")]) + b"12345")
    wait_until(lambda: upstream.requests and len(upstream.requests[0].body) == 5, "half the body")
    assert not upstream.requests[0].whole.is_set()


def test_a_peer_that_leaves_a_stalled_exchange_is_noticed(
    upstream: Upstream, client: RawClient
) -> None:
    upstream.enqueue(Script((STALL,)))
    client.send(post())
    [seen] = upstream.wait_for_requests(1)
    client.reset()
    assert seen.abandoned.wait(PATIENCE_S)


def test_stopping_ends_stalled_exchanges() -> None:
    with Upstream() as upstream:
        upstream.enqueue(Script((STALL,)))
        connected = RawClient(("127.0.0.1", upstream.port))
        connected.send(post())
        upstream.wait_for_requests(1)
    assert connected.is_closed_by_peer()
    connected.close()


def test_a_request_with_two_framings_is_a_fault(upstream: Upstream, client: RawClient) -> None:
    both = [("content-length", "2"), ("transfer-encoding", "chunked")]
    client.send(request("POST", "/", both) + b"0\r\n\r\n")
    client.read_to_end()
    assert upstream.faults
    assert not upstream.requests


def test_a_function_can_choose_the_script(upstream: Upstream, client: RawClient) -> None:
    upstream.choose = lambda seen: answer(200, b"b") if seen.target == "/b" else None
    assert client.exchange(request("GET", "/b")).body == b"b"
    assert client.exchange(request("GET", "/c")).body != b"b"


def test_tls_is_spoken_with_the_given_certificate() -> None:
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    with Upstream(tls=server_side) as upstream:
        assert upstream.url == f"https://localhost:{upstream.port}"
        raw = socket.create_connection(("127.0.0.1", upstream.port), timeout=PATIENCE_S)
        with client_side.wrap_socket(raw, server_hostname="localhost") as secured:
            secured.sendall(post())
            assert secured.recv(12) == b"HTTP/1.1 200"


def test_a_refusing_address_refuses() -> None:
    with refusing_address() as url:
        address = urlsplit(url)
        assert address.hostname
        assert address.port
        with pytest.raises(ConnectionRefusedError):
            RawClient((address.hostname, address.port))


def test_an_upstream_can_refuse_for_a_while_and_keeps_what_is_connected(
    upstream: Upstream, client: RawClient
) -> None:
    client.exchange(post())
    upstream.refuse()
    with pytest.raises(ConnectionRefusedError):
        RawClient(("127.0.0.1", upstream.port))
    assert client.exchange(post()).status == 200
    upstream.accept()
    with RawClient(("127.0.0.1", upstream.port)) as another:
        assert another.exchange(post()).status == 200


def test_nobody_is_given_the_port_of_an_upstream_while_it_refuses(upstream: Upstream) -> None:
    upstream.refuse()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", upstream.port))
    upstream.accept()


def test_the_events_of_a_message_have_the_form_of_the_api() -> None:
    events = message_events(["a"])
    assert events[0].startswith(b'event: message_start\ndata: {"type":"message_start","message":')
    assert events[-1] == b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    assert chunk(b"abc") == b"3\r\nabc\r\n"
