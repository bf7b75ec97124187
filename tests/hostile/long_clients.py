"""Crowds of slow and greedy clients. Only the command runs these, for as many seconds as it is told."""

import random
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from tests.hostile.conftest import proxy_memory
from tests.hostile.exchange import judge_all
from tests.hostile.framing import CASES
from tests.hostile.test_bombs import BOMB_HEADERS, make_bomb
from tests.hostile.test_uploads import upload_head
from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service
from tests.rawclient import Cut, RawClient, request
from tests.upstream import SSE_HEADERS, Script, Upstream, head

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
MEBI = 1 << 20


def drip(
    service: Service, crowd: int, start: bytes, until: Callable[[], bool], *, then: bytes = b"x"
) -> int:
    """Keep so many connections that begin so and go on with a byte twice a second; return how many were
    ended by the service."""
    ended = 0
    clients: list[socket.socket] = []
    never = threading.Event()
    while not (until() and ended):
        for _ in range(min(100, crowd - len(clients))):
            client = socket.create_connection(service.address, timeout=10)
            client.sendall(start)
            client.setblocking(False)
            clients.append(client)
        for client in list(clients):
            if has_ended(client, then):
                client.close()
                clients.remove(client)
                ended += 1
        never.wait(0.5)
    for client in clients:
        client.close()
    return ended


def has_ended(client: socket.socket, then: bytes) -> bool:
    """Send these bytes; return whether the other side has ended the connection."""
    try:
        if then:
            client.send(then)
        while client.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def test_a_crowd_sends_heads_slowly(service: Service, until: Callable[[], bool]) -> None:
    assert drip(service, 500, b"GET /livez HTTP/1.1\r\nx: ", until)


def test_a_crowd_sends_bodies_slowly(endpoint: Endpoint, until: Callable[[], bool]) -> None:
    start = upload_head(endpoint.target(), MEBI)
    assert drip(endpoint.service, 300, start, until)
    assert endpoint.rows() == []


def test_a_crowd_stays_silent(service: Service, until: Callable[[], bool]) -> None:
    assert drip(service, 1000, b"", until, then=b"")


def test_a_crowd_is_idle_after_a_request(service: Service, until: Callable[[], bool]) -> None:
    with ExitStack() as stack:
        clients = []
        for _ in range(2000):
            clients.append(stack.enter_context(service.connect()))
            assert clients[-1].exchange(LIVEZ).status == 200
        while not until():
            for client in clients[-200:]:
                assert client.exchange(LIVEZ).status == 200


def test_a_crowd_comes_and_goes(service: Service, until: Callable[[], bool]) -> None:
    while not until():
        client = service.connect()
        client.send(LIVEZ)
        client.reset()


def test_a_crowd_leaves_in_the_middle_of_streams(
    service: Service, upstream: Upstream, until: Callable[[], bool]
) -> None:
    stream = Script((head(200, [*SSE_HEADERS, ("content-length", str(8 * MEBI))]), bytes(8 * MEBI)))
    upstream.otherwise = stream
    endpoints = [make_new_endpoint(service, upstream) for _ in range(10)]
    count = 0
    while not until() and count < 2500:
        client = service.connect()
        client.send(endpoints[count % 10].message())
        with suppress(Cut):
            client.read_head()
        client.reset()
        count += 1
    assert sum(len(endpoint.rows()) for endpoint in endpoints) == count


def test_a_crowd_does_not_read_its_streams(
    service: Service, upstream: Upstream, until: Callable[[], bool]
) -> None:
    size = 32 * MEBI
    upstream.otherwise = Script(
        (head(200, [*SSE_HEADERS, ("content-length", str(size))]), *([bytes(MEBI)] * 32))
    )
    endpoint = make_new_endpoint(service, upstream)
    before = proxy_memory(service)
    with ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(service.connect())
            client.send(endpoint.message())
        while not until():
            assert service.get("/livez").status == 200
        assert proxy_memory(service) - before < 100 * MEBI
    assert len(endpoint.rows()) == 100


def test_a_crowd_sends_requests_that_are_refused(
    service: Service, until: Callable[[], bool]
) -> None:
    refused = request("POST", "/proxy/nobody/v1/messages", [("Host", "x")], b"{}")
    while not until():
        with service.connect() as client:
            client.send(refused * 200)
            for _ in range(200):
                assert client.read_response().status == 404


def test_a_crowd_sends_large_heads(service: Service, until: Callable[[], bool]) -> None:
    while not until():
        with service.connect() as client, suppress(ConnectionError, Cut):
            client.send(b"GET /livez HTTP/1.1\r\nx: " + b"a" * 200_000)
            assert client.read_response().status == 431


def test_a_crowd_speaks_tls(service: Service, until: Callable[[], bool]) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01" + random.Random(1).randbytes(512)  # noqa: S311
    while not until():
        with service.connect() as client:
            client.send(hello)
            assert client.read_response().status == 400


def test_a_crowd_sends_large_uploads(endpoint: Endpoint, until: Callable[[], bool]) -> None:
    data = bytes(4 * MEBI)

    def upload() -> None:
        while not until():
            with endpoint.connect() as client, suppress(ConnectionError, Cut):
                client.send(upload_head(endpoint.target(), 32 * MEBI) + data)
                client.reset()

    threads = [threading.Thread(target=upload) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert endpoint.rows() == []


def test_a_crowd_sends_tiny_chunks(endpoint: Endpoint, until: Callable[[], bool]) -> None:
    headers = [("Host", "x"), ("transfer-encoding", "chunked")]
    while not until():
        with endpoint.connect() as client, suppress(ConnectionError):
            client.send(request("POST", endpoint.target("/v1/files"), headers))
            while not until():  # or until it is ended, since its body comes too slowly
                client.send(b"1\r\nx\r\n" * 10_000)


def test_a_crowd_sends_bombs(endpoint: Endpoint, until: Callable[[], bool]) -> None:
    bomb, count = make_bomb(), 0
    while not until() and count < 250:
        assert endpoint.send(endpoint.message(bomb, BOMB_HEADERS)).status == 200
        count += 1
    assert len(endpoint.rows()) == count


def test_ambiguous_requests_come_byte_by_byte(service: Service, upstream: Upstream) -> None:
    short = [case for case in CASES if len(case.data) < 2000]
    assert judge_all(service, upstream, short, in_bytes=True) == {}


def test_clients_elsewhere_have_only_so_many_connections(
    upstream: Upstream, tmp_path_factory: pytest.TempPathFactory, until: Callable[[], bool]
) -> None:
    here = find_own_address()
    folder = tmp_path_factory.mktemp("elsewhere")
    with Service(folder, upstream.url, LISTEN="0.0.0.0:0", CLIENT_CONNECTIONS="50") as service:
        with ExitStack() as stack:
            clients = [
                stack.enter_context(RawClient((here, service.address[1]))) for _ in range(200)
            ]
            service.wait_until(lambda: sum(map(is_refused, clients)) == 150, "the refusals")
            while not until():
                assert service.get("/livez").status == 200
        assert service.output.count("TAXIMETER_CLIENT_CONNECTIONS allows") == 1


def is_refused(client: RawClient) -> bool:
    return client.arrived().startswith(b"HTTP/1.1 503 ")


def find_own_address() -> str:
    """Return an address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        address: str = probe.getsockname()[0]
        return address
