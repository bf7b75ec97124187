"""Attacks by hostile clients and upstreams, of which others must notice nothing."""

import json
import random
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest

from addon.web_slots import MAX_OF_ADDRESS
from tests.live.service import REQUEST_HEADERS, Endpoint, Service, body_bytes
from tests.rawclient import Cut, RawClient, request
from tests.upstream import (
    READ_BODY,
    SSE_HEADERS,
    STALL,
    Gate,
    Script,
    Upstream,
    head,
    last_chunk,
)

MEBI = 1 << 20
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
SOME_MB = random.Random(4).randbytes(MEBI)  # noqa: S311
CHUNKED = [*REQUEST_HEADERS, ("transfer-encoding", "chunked")]
TINY = random.Random(3).randbytes(20_000).hex().encode()  # noqa: S311
"""A body of 40,000 bytes, each of which will be a chunk."""
TINY_CHUNKS = b"".join(b"1\r\n%c\r\n" % byte for byte in TINY)


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_request_in_tiny_chunks_is_forwarded_in_few_pieces(live: Endpoint, path: str) -> None:
    with live.connect() as client:
        client.send(request("POST", live.target(path), CHUNKED) + TINY_CHUNKS + last_chunk())
        assert client.read_response().status == 200
    [seen] = live.upstream.requests
    assert bytes(seen.body) == TINY
    assert len(seen.chunk_sizes) < 200
    if path == "/v1/messages":
        assert body_bytes(live.row()["request_body"]) == TINY


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_a_response_in_tiny_chunks_is_passed_on_in_few_pieces(
    endpoint: Endpoint, path: str
) -> None:
    start = head(200, [*SSE_HEADERS, ("transfer-encoding", "chunked")])
    endpoint.upstream.enqueue(Script((start, TINY_CHUNKS + last_chunk())))
    response = endpoint.send(endpoint.message(path=path))
    assert response.body == TINY
    assert len(response.chunks) < 200
    if path == "/v1/messages":
        assert body_bytes(endpoint.row()["response_body"]) == TINY


def test_a_request_in_tiny_chunks_reaches_the_web_process(live: Endpoint) -> None:
    target = "/api/proxy-endpoints"
    with live.connect() as client:
        headers = [("Host", live.service.host), ("transfer-encoding", "chunked")]
        client.send(request("POST", target, headers) + b"1\r\nx\r\n" * 50_000 + last_chunk())
        assert client.read_response().status == 401


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_request_that_is_mostly_framing_is_ended(live: Endpoint, path: str) -> None:
    absurd = b"1;" + b"a" * 1000 + b"\r\nx\r\n"
    with live.connect() as client:
        response = client.exchange(request("POST", live.target(path), CHUNKED) + absurd * 20)
        assert (response.status, response.header("x-taximeter-error")) == (400, "protocol_error")
        assert client.is_closed_by_peer()
    assert live.rows() == []


@pytest.mark.parametrize("path", ["/proxy/default/v1/messages", "/sign-in"])
def test_a_chunk_header_that_is_not_valid_is_a_400(live: Endpoint, path: str) -> None:
    headers = [("Host", live.service.host), ("transfer-encoding", "chunked")]
    with live.connect() as client:
        response = client.exchange(request("POST", path, headers) + b"+2\r\nhi\r\n0\r\n\r\n")
        assert (response.status, response.header("x-taximeter-error")) == (400, "protocol_error")


def test_a_body_that_is_sent_to_a_page_is_refused_at_once(live: Endpoint) -> None:
    headers = [("Host", live.service.host), ("transfer-encoding", "chunked")]
    with live.connect() as client:
        client.send(request("GET", "/sign-in", headers) + b"no chunk")
        response = client.read_response()
        assert (response.status, response.header("x-taximeter-error")) == (400, "unexpected_body")


def test_a_response_that_is_mostly_framing_is_a_cut(endpoint: Endpoint) -> None:
    start = head(200, [*SSE_HEADERS, ("transfer-encoding", "chunked")])
    absurd = b"1;" + b"a" * 1000 + b"\r\nx\r\n"
    endpoint.upstream.enqueue(Script((start, absurd * 100 + last_chunk())))
    assert endpoint.send().cut
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_interrupted", 200)


# --- uploads ------------------------------------------------------------------------------------


def upload_head(target: str, size: int, *more: tuple[str, str]) -> bytes:
    return request("POST", target, [*REQUEST_HEADERS, ("content-length", str(size)), *more])


def proxy_memory(service: Service) -> int:
    rss: int = psutil.Process(service.pids()["proxy"]).memory_info().rss
    return rss


UNKNOWN = "/proxy/nobody/v1/messages"
PAGE = "https://app.example"


def test_a_refused_upload_is_answered_before_it_is_sent(live: Endpoint) -> None:
    with live.connect() as client:
        client.send(upload_head(UNKNOWN, 32 * MEBI))
        response = client.read_response()
        assert (response.status, response.header("connection")) == (404, "close")


def test_a_client_that_sends_all_of_a_refused_upload_first_reads_the_answer_too(
    live: Endpoint,
) -> None:
    with live.connect() as client:
        client.send(upload_head(UNKNOWN, 32 * MEBI))
        for _ in range(32):
            client.send(SOME_MB)
        assert client.read_response().status == 404
        assert client.is_closed_by_peer()


def test_a_refused_upload_in_chunks_is_answered_and_thrown_away(live: Endpoint) -> None:
    with live.connect() as client:
        client.send(request("POST", UNKNOWN, CHUNKED))
        for _ in range(8):
            client.send_chunk(SOME_MB)
        client.send(last_chunk())
        assert client.read_response().status == 404


def test_a_refused_client_that_asks_before_it_sends_is_not_told_to_go_on(live: Endpoint) -> None:
    with live.connect() as client:
        client.send(upload_head(UNKNOWN, 10, ("Expect", "100-continue")))
        response = client.read_response()
        assert (response.status, response.interim) == (404, [])


@pytest.mark.parametrize(("method", "status"), [("POST", 405), ("GET", 400)])
def test_a_body_that_is_sent_to_healthz_is_refused_at_once(
    live: Endpoint, method: str, status: int
) -> None:
    headers = [*REQUEST_HEADERS, ("content-length", str(32 * MEBI))]
    with live.connect() as client:
        client.send(request(method, "/healthz", headers))
        response = client.read_response()
        assert (response.status, response.header("connection")) == (status, "close")


def test_a_small_refused_body_leaves_the_connection_for_the_next_request(live: Endpoint) -> None:
    with live.connect() as client:
        assert client.exchange(request("POST", UNKNOWN, REQUEST_HEADERS, bytes(2000))).status == 404
        assert client.exchange(live.message()).status == 200


def test_refused_uploads_take_no_memory(live: Endpoint) -> None:
    service = live.service
    before = proxy_memory(service)
    with ExitStack() as stack:
        clients = [stack.enter_context(service.connect()) for _ in range(6)]
        for client in clients:
            client.send(upload_head(UNKNOWN, 32 * MEBI))
            for _ in range(16):
                client.send(SOME_MB)
        assert service.get("/livez").status == 200  # the loop has dealt with what came before
        assert proxy_memory(service) - before < 30 * MEBI


def test_memory_of_abandoned_uploads_comes_back(live: Endpoint) -> None:
    service = live.service
    before = proxy_memory(service)
    clients = [service.connect() for _ in range(8)]  # more than what was given back before
    for client in clients:
        client.send(upload_head(live.target(), 32 * MEBI))
        for _ in range(16):
            client.send(SOME_MB)
    service.wait_until(lambda: proxy_memory(service) - before > 80 * MEBI, "the uploads")
    for client in clients:
        client.close()
    service.wait_until(lambda: proxy_memory(service) - before < 40 * MEBI, "the memory")
    assert live.upstream.requests == []


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Upstream]]:
    """A service with little patience and little memory for request bodies."""
    settings = {
        "REQUEST_IDLE_SECONDS": "1",
        "REQUEST_MEMORY": "4MB",
        "ALLOWED_ORIGINS": PAGE,
        "TRUSTED_PROXIES": "127.0.0.1",  # so that a test has clients at several addresses
    }
    with (
        Upstream() as upstream,
        Service(tmp_path_factory.mktemp("strict"), upstream.url, **settings) as service,
    ):
        yield service, upstream


@pytest.mark.parametrize("target", ["/proxy/default/v1/messages", "/proxy/default/v1/files"])
def test_a_client_that_stops_within_its_body_is_ended(
    strict: tuple[Service, Upstream], target: str
) -> None:
    service, upstream = strict
    upstream.reset()
    with service.connect() as client:
        client.send(upload_head(target, 1000, ("Origin", PAGE)) + b"{")
        response = client.read_response()
        assert (response.status, response.header("x-taximeter-error")) == (408, "request_stalled")
        assert response.header("access-control-allow-origin") == PAGE
        assert client.is_closed_by_peer()
    if target.endswith("files"):
        assert upstream.requests[0].abandoned.wait(5)
    assert service.settled_rows() == []


@pytest.mark.parametrize("before", [b"", LIVEZ])
def test_a_client_that_does_not_end_its_head_is_ended(
    strict: tuple[Service, Upstream], before: bytes
) -> None:
    service, _ = strict
    with service.connect() as client:
        assert not before or client.exchange(before).status == 200
        client.send(LIVEZ[:-2])
        response = client.read_response()
        assert (response.status, response.header("x-taximeter-error")) == (408, "request_stalled")
        assert client.is_closed_by_peer()


def test_a_client_can_read_why_its_large_head_was_refused(live: Endpoint) -> None:
    for target in ("/livez", live.target("/v1/messages")):
        with live.connect() as client:
            client.send(request("GET", target)[:-2] + b"a:\r\n" * 60_000 + b"\r\n")
            response = client.read_response()
            assert (response.status, response.header("x-taximeter-error")) == (
                431,
                "head_too_large",
            )
            client.close()
    assert live.rows() == []


def test_a_client_that_sends_nothing_is_ended(strict: tuple[Service, Upstream]) -> None:
    service, _ = strict
    with service.connect() as client:
        assert client.is_closed_by_peer()


def drip(client: RawClient) -> None:
    """Send on in a head, byte by byte, until the connection ends."""
    for _ in range(300):
        client.send(b"x")
        try:
            client.read_head()
        except TimeoutError:
            continue
        except Cut:
            return
    pytest.fail("the head never came to an end")


def test_a_client_that_sends_its_head_slowly_is_ended(strict: tuple[Service, Upstream]) -> None:
    service, _ = strict
    with service.connect(timeout_s=0.1) as client, suppress(ConnectionError):
        client.send(b"GET /livez HTTP/1.1\r\nx: ")
        drip(client)


@pytest.mark.parametrize("target", ["/proxy/default/v1/messages", "/sign-in"])
def test_a_client_that_sends_its_body_slowly_is_ended(
    strict: tuple[Service, Upstream], target: str
) -> None:
    service, _ = strict
    headers = [("Host", service.host), ("content-length", "1000")]
    with service.connect(timeout_s=0.1) as client:
        client.send(request("POST", target, headers))
        for _ in range(300):
            client.send(b"x")
            with suppress(TimeoutError):
                assert client.read_response().status == 408
                return
    pytest.fail("the body never came to an end")


def test_what_a_tls_client_sends_is_not_logged(shared_service: Service) -> None:
    secret = random.Random(5).randbytes(600)  # noqa: S311
    with shared_service.connect() as client:
        client.send(b"\x16\x03\x01\x02\x58" + secret)
        assert client.read_response().status == 400
    assert secret[:16].hex() not in shared_service.output


def test_requests_that_came_together_are_all_responded_to(shared_service: Service) -> None:
    with shared_service.connect() as client:
        client.send(LIVEZ * 2000 + LIVEZ.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert client.read_to_end().count(b"HTTP/1.1 200 OK") == 2001


def test_an_upload_that_its_upstream_does_not_take_is_not_the_clients_fault(
    strict: tuple[Service, Upstream],
) -> None:
    service, upstream = strict
    upstream.reset()
    gate = Gate()
    upstream.enqueue(Script((gate, READ_BODY, head(200, [("content-length", "0")])), early=True))
    sent = threading.Event()
    with service.connect() as client:
        client.send(upload_head("/proxy/default/v1/files", 32 * MEBI))

        def send() -> None:
            for _ in range(32):
                client.send(SOME_MB)
            sent.set()

        sender = threading.Thread(target=send)
        sender.start()
        gate.wait_reached()
        assert not sent.wait(2.5), "the upstream took everything unread"
        gate.open()
        assert client.read_response().status == 200
        sender.join()


def test_large_uploads_above_the_memory_for_them_get_503(strict: tuple[Service, Upstream]) -> None:
    service, upstream = strict
    upstream.reset()
    target = "/proxy/default/v1/messages"
    large = request("POST", target, REQUEST_HEADERS, bytes(2 * MEBI))
    with service.connect() as holder:
        holder.send(upload_head(target, 8 * MEBI))
        refused = None
        while refused is None:  # however quickly the proxy reads what the first one holds
            holder.send(SOME_MB[: MEBI // 4] if not holder.arrived() else b"")
            if holder.arrived():
                refused = holder.read_response()
        assert (refused.status, refused.header("x-taximeter-error")) == (503, "memory_full")
        assert int(refused.header("retry-after") or 0) > 0
        assert json.loads(refused.body)["type"] == "error"
        assert service.send(request("POST", target, REQUEST_HEADERS, b"{}")).status == 200
    assert service.send(large).status == 200
    assert len(service.settled_rows()) == 2


def test_a_client_that_holds_much_memory_leaves_room_for_others(
    strict: tuple[Service, Upstream],
) -> None:
    service, upstream = strict
    upstream.reset()
    target = "/proxy/default/v1/messages"
    with ExitStack() as stack:
        holders = [stack.enter_context(service.connect()) for _ in range(16)]
        for holder in holders:
            holder.send(upload_head(target, MEBI, ("x-forwarded-for", "203.0.113.1")))
            holder.send(SOME_MB[: MEBI // 2])
        service.wait_until(lambda: any(map(RawClient.arrived, holders)), "a refusal")
        refused = next(filter(RawClient.arrived, holders)).read_response()
        assert (refused.status, refused.header("x-taximeter-error")) == (503, "memory_full")
        other = [*REQUEST_HEADERS, ("x-forwarded-for", "203.0.113.2")]
        assert service.send(request("POST", target, other, bytes(MEBI * 7 // 8))).status == 200


def test_what_an_upstream_never_took_is_dropped_when_its_client_leaves(live: Endpoint) -> None:
    live.upstream.enqueue(Script((STALL,), early=True))
    proxy = psutil.Process(live.service.pids()["proxy"])

    def is_connected() -> bool:
        port = live.upstream.port
        return any(c.raddr[1:] == (port,) for c in proxy.net_connections("tcp"))

    with live.connect() as client:
        client.send(live.message(SOME_MB * 20))
        live.service.wait_until(lambda: live.upstream.requests, "the call at the upstream")
        assert is_connected()
    live.service.wait_until(lambda: not is_connected(), "the end of the upstream connection")
    assert live.row()["outcome"] == "client_disconnected"


def test_a_client_that_sends_on_without_end_before_its_answer_is_disconnected(
    live: Endpoint,
) -> None:
    live.upstream.enqueue(Script((STALL,)))
    with live.connect() as client:
        client.send(live.message())
        live.upstream.wait_for_requests(1)
        with pytest.raises(ConnectionError):
            client.send(SOME_MB * 64)
    assert live.upstream.requests[0].abandoned.wait(5)
    assert live.row()["outcome"] == "client_disconnected"


# --- connections --------------------------------------------------------------------------------


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells the limits of another process; run it there"
)
def test_every_process_may_have_as_many_descriptors_as_the_system_allows(
    shared_service: Service,
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for name, pid in shared_service.pids().items():
        assert psutil.Process(pid).rlimit(psutil.RLIMIT_NOFILE)[0] == hard, name


def test_one_client_address_has_only_so_many_requests_at_the_web_process(
    strict: tuple[Service, Upstream],
) -> None:
    service, _ = strict
    web = psutil.Process(service.pids()["web"])
    page = request("GET", "/sign-in", [("Host", service.host)])
    with ExitStack() as stack:
        clients = [stack.enter_context(service.connect()) for _ in range(MAX_OF_ADDRESS + 2)]
        web.suspend()
        try:
            for client in clients:
                client.send(page)
            service.wait_until(lambda: sum(bool(c.arrived()) for c in clients) == 2, "the refusals")
            refused = next(client for client in clients if client.arrived())
            response = refused.read_response()
        finally:
            web.resume()
        assert (response.status, response.header("x-taximeter-error")) == (503, "web_busy")
        assert response.header("retry-after") == "1"
        clients.remove(refused)
        statuses = [client.read_response().status for client in clients]
        assert sorted(statuses) == [200] * MAX_OF_ADDRESS + [503]
        assert refused.exchange(page).status == 200  # its connection goes on, and slots are free


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux sets the limits of another process; run it there"
)
def test_idle_connections_give_way_to_new_clients_when_descriptors_run_short(
    shared_service: Service,
) -> None:
    service = shared_service
    proxy = psutil.Process(service.pids()["proxy"])
    limits = proxy.rlimit(psutil.RLIMIT_NOFILE)
    limit = proxy.num_fds() + 150
    proxy.rlimit(psutil.RLIMIT_NOFILE, (limit, limits[1]))
    with ExitStack() as stack:
        stack.callback(proxy.rlimit, psutil.RLIMIT_NOFILE, limits)
        for _ in range(limit + 50):
            client = stack.enter_context(service.connect())
            assert client.exchange(LIVEZ).status == 200
        assert client.exchange(LIVEZ).status == 200  # not the one that has just come
    assert service.output.count("idle longest are closed") == 1
    assert "Traceback" not in service.output
