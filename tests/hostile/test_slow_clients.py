"""Clients that send nothing, or a byte now and then, and those that send much at once."""

import random
import select
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.live.service import Endpoint, Service
from tests.rawclient import Cut, RawClient, request

DROP_S = 0.1
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_client_that_does_not_end_its_head_is_ended(service: Service) -> None:
    clients = [service.connect() for _ in range(2)]
    assert clients[1].exchange(LIVEZ).status == 200
    for client in clients:
        client.send(LIVEZ[:-2])
    for client in clients:
        with client:
            response = client.read_response()
            assert (response.status, response.header("x-taximeter-error")) == (
                408,
                "request_stalled",
            )
            assert client.is_closed_by_peer()


def test_a_client_can_read_why_its_large_head_was_refused(endpoint: Endpoint) -> None:
    for target in ("/livez", endpoint.target()):
        with endpoint.connect() as client:
            client.send(request("GET", target)[:-2] + b"a:\r\n" * 60_000 + b"\r\n")
            response = client.read_response()
            assert (response.status, response.header("x-taximeter-error")) == (
                431,
                "head_too_large",
            )
    assert endpoint.rows() == []


def test_a_client_that_sends_nothing_is_ended(service: Service) -> None:
    with service.connect() as client:
        assert client.is_closed_by_peer()


def drip(client: RawClient) -> int:
    """Send on byte by byte until there is a response; return its status, 0 for an end without one."""
    try:
        for _ in range(400):
            client.send(b"x")
            if select.select([client.socket], [], [], DROP_S)[0]:
                return client.read_response().status
    except (Cut, ConnectionError):
        return 0
    pytest.fail("it never came to an end")


def test_a_client_that_sends_its_head_slowly_is_ended(service: Service) -> None:
    with service.connect() as client:
        client.send(b"GET /livez HTTP/1.1\r\nx: ")
        assert drip(client) in (0, 408)


def test_a_client_that_sends_its_body_slowly_is_ended(service: Service) -> None:
    headers = [("Host", service.host), ("content-length", "1000")]

    def send_to(target: str) -> int:
        with service.connect() as client:
            client.send(request("POST", target, headers))
            return drip(client)

    with ThreadPoolExecutor() as pool:
        statuses = list(pool.map(send_to, ("/proxy/default/v1/messages", "/sign-in")))
    assert statuses == [408, 408]


def test_what_a_tls_client_sends_is_not_logged(service: Service) -> None:
    secret = random.Random(5).randbytes(600)  # noqa: S311
    with service.connect() as client:
        client.send(b"\x16\x03\x01\x02\x58" + secret)
        assert client.read_response().status == 400
    assert secret[:16].hex() not in service.output


def test_requests_that_came_together_are_all_responded_to(service: Service) -> None:
    with service.connect() as client:
        client.send(LIVEZ * 2000 + LIVEZ.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        assert client.read_to_end().count(b"HTTP/1.1 200 OK") == 2001
