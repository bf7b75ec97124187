"""Bodies in absurd chunks, of requests and of responses."""

import random

from tests.hostile.conftest import endpoints_of_both_modes
from tests.live.service import REQUEST_HEADERS, Endpoint, Service, body_bytes
from tests.rawclient import request
from tests.upstream import SSE_HEADERS, Script, Upstream, head, last_chunk

CHUNKED = [*REQUEST_HEADERS, ("transfer-encoding", "chunked")]
TINY = random.Random(3).randbytes(10_000).hex().encode()  # noqa: S311
"""A body of 20,000 bytes, each of which will be a chunk."""
TINY_CHUNKS = b"".join(b"1\r\n%c\r\n" % byte for byte in TINY)
ABSURD = b"1;" + b"a" * 1000 + b"\r\nx\r\n"
RESPONSE = head(200, [*SSE_HEADERS, ("transfer-encoding", "chunked")])


def test_a_request_in_tiny_chunks_is_forwarded_in_few_pieces(endpoint: Endpoint) -> None:
    for path in ("/v1/messages", "/v1/files"):
        with endpoint.connect() as client:
            client.send(
                request("POST", endpoint.target(path), CHUNKED) + TINY_CHUNKS + last_chunk()
            )
            assert client.read_response().status == 200
        seen = endpoint.upstream.requests[-1]
        assert bytes(seen.body) == TINY
        assert len(seen.chunk_sizes) < 200
    assert body_bytes(endpoint.row()["request_body"]) == TINY


def test_a_response_in_tiny_chunks_is_passed_on_in_few_pieces(
    service: Service, upstream: Upstream
) -> None:
    for endpoint in endpoints_of_both_modes(service, upstream):
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            upstream.enqueue(Script((RESPONSE, TINY_CHUNKS + last_chunk())))
            response = endpoint.send(endpoint.message(path=path))
            assert response.body == TINY
            assert len(response.chunks) < 200
        assert body_bytes(endpoint.row()["response_body"]) == TINY


def test_a_request_in_tiny_chunks_reaches_the_web_process(service: Service) -> None:
    headers = [("Host", service.host), ("transfer-encoding", "chunked")]
    with service.connect() as client:
        client.send(request("POST", "/api/proxy-endpoints", headers))
        client.send(b"1\r\nx\r\n" * 20_000 + last_chunk())
        assert client.read_response().status == 401


def test_a_request_that_is_mostly_framing_is_ended(endpoint: Endpoint) -> None:
    for path in ("/v1/messages", "/v1/files"):
        with endpoint.connect() as client:
            response = client.exchange(
                request("POST", endpoint.target(path), CHUNKED) + ABSURD * 20
            )
            assert (response.status, response.header("x-taximeter-error")) == (
                400,
                "protocol_error",
            )
            assert client.is_closed_by_peer()
    assert endpoint.rows() == []


def test_a_chunk_of_a_page_or_a_refused_request_that_is_not_valid_is_a_400(
    service: Service,
) -> None:
    headers = [("Host", service.host), ("transfer-encoding", "chunked")]
    for method, path, body, code in (
        ("POST", "/proxy/default/v1/messages", b"+2\r\nhi\r\n0\r\n\r\n", "protocol_error"),
        ("POST", "/sign-in", b"+2\r\nhi\r\n0\r\n\r\n", "protocol_error"),
        ("GET", "/sign-in", b"no chunk", "unexpected_body"),
    ):
        with service.connect() as client:
            client.send(request(method, path, headers) + body)
            response = client.read_response()
            assert (response.status, response.header("x-taximeter-error")) == (400, code)


def test_a_response_that_is_mostly_framing_is_a_cut(service: Service, upstream: Upstream) -> None:
    for endpoint in endpoints_of_both_modes(service, upstream):
        upstream.enqueue(Script((RESPONSE, ABSURD * 100 + last_chunk())))
        assert endpoint.send().cut
        row = endpoint.row()
        assert (row["outcome"], row["status_code"]) == ("upstream_interrupted", 200)
