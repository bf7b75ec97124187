"""Large uploads: refused, abandoned, unread, and more than there is memory for."""

import json
import random
import sys
import threading
from contextlib import ExitStack, suppress

import psutil
import pytest

from tests.hostile.conftest import IDLE_S, PAGE, count_unread, proxy_memory
from tests.live.service import REQUEST_HEADERS, Endpoint, Service
from tests.rawclient import RawClient, request
from tests.upstream import PATIENCE_S, READ_BODY, STALL, Gate, Script, head, last_chunk

MEBI = 1 << 20
SOME_MB = random.Random(4).randbytes(MEBI)  # noqa: S311
CHUNKED = [*REQUEST_HEADERS, ("transfer-encoding", "chunked")]
UNKNOWN = "/proxy/nobody/v1/messages"


def upload_head(target: str, size: int, *more: tuple[str, str]) -> bytes:
    return request("POST", target, [*REQUEST_HEADERS, ("content-length", str(size)), *more])


def test_refused_uploads_take_no_memory(service: Service) -> None:
    before = proxy_memory(service)
    with ExitStack() as stack:
        for _ in range(6):
            client = stack.enter_context(service.connect())
            client.send(upload_head(UNKNOWN, 32 * MEBI))
            for _ in range(16):
                client.send(SOME_MB)
        assert service.get("/livez").status == 200  # the loop has dealt with what came before
        assert proxy_memory(service) - before < 30 * MEBI


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells what a process has not read yet; run it there"
)
def test_memory_of_abandoned_uploads_comes_back(endpoint: Endpoint) -> None:
    service = endpoint.service
    before = proxy_memory(service)
    clients = [service.connect() for _ in range(7)]  # enough to be worth giving back
    for client in clients:
        with suppress(ConnectionError):  # on a busy machine this is too slow to be waited for
            client.send(upload_head(endpoint.target(), 32 * MEBI))
            for _ in range(6):
                client.send(SOME_MB)
    service.wait_until(lambda: not count_unread(service), "the proxy to read it all")
    for client in clients:
        client.close()
    service.wait_until(lambda: proxy_memory(service) - before < 20 * MEBI, "the memory")
    assert endpoint.send(endpoint.message(bytes(20 * MEBI))).status == 200, "there is room again"


def test_a_refused_upload_is_answered_before_it_is_sent(service: Service) -> None:
    with service.connect() as client:
        client.send(upload_head(UNKNOWN, 32 * MEBI))
        response = client.read_response()
        assert (response.status, response.header("connection")) == (404, "close")


def test_a_client_that_sends_all_of_a_refused_upload_first_reads_the_answer_too(
    service: Service,
) -> None:
    with service.connect() as client:
        client.send(upload_head(UNKNOWN, 32 * MEBI))
        for _ in range(32):
            client.send(SOME_MB)
        assert client.read_response().status == 404
        assert client.is_closed_by_peer()


def test_a_refused_upload_in_chunks_is_answered_and_thrown_away(service: Service) -> None:
    with service.connect() as client:
        client.send(request("POST", UNKNOWN, CHUNKED))
        for _ in range(8):
            client.send_chunk(SOME_MB)
        client.send(last_chunk())
        assert client.read_response().status == 404


def test_a_refused_client_that_asks_before_it_sends_is_not_told_to_go_on(service: Service) -> None:
    with service.connect() as client:
        client.send(upload_head(UNKNOWN, 10, ("Expect", "100-continue")))
        response = client.read_response()
        assert (response.status, response.interim) == (404, [])


def test_a_body_that_is_sent_to_healthz_is_refused_at_once(service: Service) -> None:
    headers = [*REQUEST_HEADERS, ("content-length", str(32 * MEBI))]
    for method, status in (("POST", 405), ("GET", 400)):
        with service.connect() as client:
            client.send(request(method, "/healthz", headers))
            response = client.read_response()
            assert (response.status, response.header("connection")) == (status, "close")


def test_a_small_refused_body_leaves_the_connection_for_the_next_request(
    endpoint: Endpoint,
) -> None:
    with endpoint.connect() as client:
        refused = client.exchange(request("POST", UNKNOWN, REQUEST_HEADERS, bytes(2000)))
        assert refused.status == 404
        assert client.exchange(endpoint.message()).status == 200


def test_a_client_that_stops_within_its_body_is_ended(endpoint: Endpoint) -> None:
    clients = [endpoint.connect() for _ in range(2)]
    for client, path in zip(clients, ("/v1/messages", "/v1/files"), strict=True):
        client.send(upload_head(endpoint.target(path), 1000, ("Origin", PAGE)) + b"{")
    for client in clients:
        with client:
            response = client.read_response()
            assert (response.status, response.header("x-taximeter-error")) == (
                408,
                "request_stalled",
            )
            assert response.header("access-control-allow-origin") == PAGE
            assert client.is_closed_by_peer()
    assert endpoint.upstream.requests[0].abandoned.wait(PATIENCE_S)
    assert endpoint.rows() == []


def test_an_upload_that_its_upstream_does_not_take_is_not_the_clients_fault(
    endpoint: Endpoint,
) -> None:
    gate = Gate()
    taken = Script((gate, READ_BODY, head(200, [("content-length", "0")])), early=True)
    endpoint.upstream.enqueue(taken)
    sent = threading.Event()
    size_mb = 80  # more than kernels buffer for both connections
    with endpoint.connect() as client:
        client.send(upload_head(endpoint.target("/v1/files"), size_mb * MEBI))

        def send() -> None:
            for _ in range(size_mb):
                client.send(SOME_MB)
            sent.set()

        sender = threading.Thread(target=send)
        sender.start()
        gate.wait_reached()
        assert not sent.wait(2.5 * IDLE_S), "the upstream took everything unread"
        gate.open()
        assert client.read_response().status == 200
        sender.join()


def test_large_uploads_above_the_memory_for_them_get_503(endpoint: Endpoint) -> None:
    large = endpoint.message(bytes(2 * MEBI))
    with ExitStack() as stack:
        holders = [stack.enter_context(endpoint.connect()) for _ in range(2)]
        for holder in holders:
            holder.send(upload_head(endpoint.target(), 32 * MEBI))
        refused = None
        while refused is None:  # however quickly the proxy reads what they hold
            for holder in holders:
                holder.send(SOME_MB if not any(map(RawClient.arrived, holders)) else b"")
            arrived = [holder for holder in holders if holder.arrived()]
            refused = arrived[0].read_response() if arrived else None
        assert (refused.status, refused.header("x-taximeter-error")) == (503, "memory_full")
        assert int(refused.header("retry-after") or 0) > 0
        assert json.loads(refused.body)["type"] == "error"
        assert endpoint.send().status == 200, "a small one finds room"
    assert endpoint.send(large).status == 200
    assert len(endpoint.rows()) == 2


def test_a_client_that_holds_much_memory_leaves_room_for_others(endpoint: Endpoint) -> None:
    with ExitStack() as stack:
        holders = []
        for _ in range(16):
            holder = stack.enter_context(endpoint.connect())
            holders.append(holder)
            here = ("x-forwarded-for", "203.0.113.1")
            holder.send(upload_head(endpoint.target(), 8 * MEBI, here))
            for _ in range(4):
                holder.send(SOME_MB)
        endpoint.service.wait_until(lambda: any(map(RawClient.arrived, holders)), "a refusal")
        other = [*REQUEST_HEADERS, ("x-forwarded-for", "203.0.113.2")]
        assert endpoint.send(endpoint.message(bytes(8 * MEBI), other)).status == 200


def test_what_an_upstream_never_took_is_dropped_when_its_client_leaves(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(Script((STALL,), early=True))
    proxy = psutil.Process(endpoint.service.pids()["proxy"])

    def is_connected() -> bool:
        port = endpoint.upstream.requests[0].peer_port  # others have connections, too
        return any(c.laddr.port == port for c in proxy.net_connections("tcp"))

    with endpoint.connect() as client:
        client.send(endpoint.message(SOME_MB * 20))
        endpoint.service.wait_until(lambda: endpoint.upstream.requests, "the call at the upstream")
        assert is_connected()
    endpoint.service.wait_until(lambda: not is_connected(), "the end of the upstream connection")
    assert endpoint.row()["outcome"] == "client_disconnected"


def test_a_client_that_sends_on_without_end_before_its_answer_is_disconnected(
    endpoint: Endpoint,
) -> None:
    endpoint.upstream.enqueue(Script((STALL,)))
    with endpoint.connect() as client:
        client.send(endpoint.message())
        endpoint.upstream.wait_for_requests(1)
        with pytest.raises(ConnectionError):
            client.send(SOME_MB * 64)
    assert endpoint.upstream.requests[0].abandoned.wait(PATIENCE_S)
    assert endpoint.row()["outcome"] == "client_disconnected"
