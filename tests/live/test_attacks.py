"""What hostile clients and upstreams do, and what others notice of it: nothing."""

import random

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint, body_bytes
from tests.rawclient import Cut, request
from tests.upstream import SSE_HEADERS, Script, head, last_chunk

MEBI = 1 << 20
CHUNKED = [*REQUEST_HEADERS, ("transfer-encoding", "chunked")]
TINY = random.Random(3).randbytes(100_000).hex().encode()  # noqa: S311
"""A body of 200,000 bytes, each of which will be a chunk."""
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
    with live.connect() as client, pytest.raises(Cut):
        client.exchange(request("POST", live.target(path), CHUNKED) + absurd * 100)
    assert live.rows() == []


def test_a_response_that_is_mostly_framing_is_a_cut(endpoint: Endpoint) -> None:
    start = head(200, [*SSE_HEADERS, ("transfer-encoding", "chunked")])
    absurd = b"1;" + b"a" * 1000 + b"\r\nx\r\n"
    endpoint.upstream.enqueue(Script((start, absurd * 100 + last_chunk())))
    assert endpoint.send().cut
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_interrupted", 200)
