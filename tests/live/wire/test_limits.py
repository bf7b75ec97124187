"""Limits of rate, size and memory."""

import random

import psutil
import pytest

from tests.live.conftest import EndpointFactory
from tests.live.service import REQUEST_HEADERS, Endpoint, body_bytes
from tests.live.wire.checks import MEBI, assert_own_error, barrier
from tests.rawclient import Cut, request
from tests.upstream import (
    PATIENCE_S,
    READ_BODY,
    Script,
    answer,
    error_json,
    head,
    wait_until,
)

OTHER_PATHS = ("/v1/messages/count_tokens", "/v1/models")


def test_the_message_after_the_limit_is_refused_and_makes_no_entry(
    live: Endpoint, make_endpoint: EndpointFactory
) -> None:
    """The limits of the other destinations are in tests/addon/test_rate_limits.py."""
    limit = 300
    with live.connect() as client:
        statuses = {client.exchange(live.message()).status for _ in range(limit)}
        refused = client.exchange(live.message())
        others = {client.exchange(live.message(path=path)).status for path in OTHER_PATHS}
    assert statuses == others == {200}
    assert_own_error(refused, 429, "rate_limit_error")
    assert 1 <= int(refused.header("retry-after") or "") <= 60
    assert len(live.upstream.requests) == limit + len(OTHER_PATHS)
    assert len(live.rows()) == limit
    other = make_endpoint("live")
    assert other.send(other.message()).status == 200


def test_a_message_of_32_mb_passes_and_is_logged(live: Endpoint) -> None:
    body = b'{"a":"' + random.Random(1).randbytes(16 * MEBI - 4).hex().encode() + b'"}'  # noqa: S311
    assert len(body) == 32 * MEBI
    assert live.send(live.message(body)).status == 200
    [seen] = live.upstream.requests
    assert seen.body == body
    row = live.row()
    assert row["request_bytes"] == len(body)
    assert body_bytes(row["request_body"]) == body


def test_a_message_declared_above_33_mb_is_refused_and_not_forwarded(live: Endpoint) -> None:
    size = 34 * MEBI
    with live.connect() as client:
        client.send(
            request("POST", live.target(), [*REQUEST_HEADERS, ("content-length", str(size))])
        )
        try:
            client.send(bytes(MEBI))
            response = client.read_response()
        except (Cut, OSError):
            response = None
    if response is not None:
        assert_own_error(response, 413, "request_too_large")
    assert live.upstream.requests == []
    assert live.rows() == []


@pytest.mark.parametrize("size_mb", [8, 40])
def test_an_upload_streams_through_in_constant_memory(live: Endpoint, size_mb: int) -> None:
    half = random.Random(2).randbytes(size_mb // 2 * MEBI)  # noqa: S311
    proxy = psutil.Process(live.service.pids()["proxy"])
    before = proxy.memory_info().rss
    with live.connect() as client:
        headers = [*REQUEST_HEADERS, ("content-length", str(2 * len(half)))]
        client.send(request("POST", live.target("/v1/files"), headers))
        client.send(half)
        wait_until(
            lambda: live.upstream.requests and len(live.upstream.requests[0].body) == len(half),
            "the first half at the upstream while the second is not even sent",
        )
        client.send(half)
        assert client.read_response().status == 200
    assert proxy.memory_info().rss - before < 30 * MEBI
    assert live.upstream.requests[0].body == half + half
    assert live.rows() == []


def test_a_download_waits_for_a_slow_client_in_constant_memory(live: Endpoint) -> None:
    piece = bytes(MEBI)
    live.upstream.enqueue(
        Script(
            (
                head(200, [("content-length", str(200 * MEBI))]),
                *(piece for _ in range(200)),
            )
        )
    )
    proxy = psutil.Process(live.service.pids()["proxy"])
    before = proxy.memory_info().rss
    with live.connect() as client:
        client.send(request("GET", live.target("/v1/files/file_1/content"), REQUEST_HEADERS))
        response = client.read_response_head()
        pieces = client.iter_body(response)
        received = len(next(pieces))
        barrier(live.service)
        most = proxy.memory_info().rss - before
        for piece in pieces:
            received += len(piece)
        most = max(most, proxy.memory_info().rss - before)
    assert received == 200 * MEBI
    assert most < 30 * MEBI


def test_a_client_that_leaves_during_an_upload_ends_the_upstream_call(live: Endpoint) -> None:
    client = live.connect()
    headers = [*REQUEST_HEADERS, ("content-length", str(8 * MEBI))]
    client.send(request("POST", live.target("/v1/files"), headers) + bytes(MEBI))
    wait_until(lambda: live.upstream.requests, "the upload at the upstream")
    client.reset()
    assert live.upstream.requests[0].abandoned.wait(PATIENCE_S)
    assert live.rows() == []


def test_an_upstream_that_refuses_a_large_message_before_reading_it_is_an_entry(
    endpoint: Endpoint,
) -> None:
    refusal = error_json("request_too_large", "too large")
    endpoint.upstream.enqueue(answer(413, refusal, early=True).then(READ_BODY))
    response = endpoint.send(endpoint.message(bytes(20 * MEBI)))
    assert (response.status, response.body) == (413, refusal)
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_error", 413)


def test_an_upstream_that_answers_during_an_upload_is_heard(live: Endpoint) -> None:
    refusal = error_json("request_too_large", "no more than 500 MB")
    live.upstream.enqueue(answer(413, refusal, early=True).then(READ_BODY))
    with live.connect() as client:
        headers = [*REQUEST_HEADERS, ("content-length", str(40 * MEBI))]
        client.send(request("POST", live.target("/v1/files"), headers) + bytes(MEBI))
        response = client.read_response()
    assert (response.status, response.body) == (413, refusal)
