"""The framing of requests and responses on the wire, in all awkward variants."""

import gzip
import zlib

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint, body_bytes
from tests.live.wire.checks import (
    EARLY_HINTS,
    EVENTS,
    STREAM,
    assert_own_error,
    barrier,
    is_cut,
)
from tests.rawclient import request
from tests.upstream import (
    CLOSE,
    PATIENCE_S,
    answer,
    chunked,
    cut_sse,
    head,
    last_chunk,
    message_json,
    sse,
)


@pytest.mark.parametrize(
    "interim",
    [
        pytest.param([head(100)], id="100"),
        pytest.param([EARLY_HINTS], id="103"),
        pytest.param([head(102), EARLY_HINTS, EARLY_HINTS], id="several"),
        pytest.param([EARLY_HINTS[:9], EARLY_HINTS[9:30], EARLY_HINTS[30:]], id="in-pieces"),
    ],
)
def test_interim_responses_are_swallowed_and_shift_nothing(
    endpoint: Endpoint, interim: list[bytes]
) -> None:
    bodies = [message_json("first"), message_json("second")]
    endpoint.upstream.enqueue(answer(200, bodies[0], interim=interim), answer(200, bodies[1]))
    with endpoint.connect() as client:
        responses = [client.exchange(endpoint.message()) for _ in bodies]
    assert [(r.status, r.body, r.interim) for r in responses] == [(200, b, []) for b in bodies]
    assert [body_bytes(row["response_body"]) for row in endpoint.rows()] == bodies


def test_trailers_of_a_response_do_it_no_harm(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(chunked(200, EVENTS, trailers=[("x-checksum", "1")]))
    with endpoint.connect() as client:
        assert client.exchange(endpoint.message()).body == STREAM
        assert client.exchange(endpoint.message()).body == message_json()
    first, _second = endpoint.rows()
    assert body_bytes(first["response_body"]) == STREAM


def test_trailers_of_a_request_do_it_no_harm(live: Endpoint) -> None:
    with live.connect() as client:
        client.send(
            request("POST", live.target(), [*REQUEST_HEADERS, ("transfer-encoding", "chunked")])
        )
        client.send_chunk(b'{"a":1}')
        client.send(last_chunk([("x-checksum", "1")]))
        assert client.read_response().status == 200
        assert client.exchange(live.message()).status == 200
    assert [bytes(seen.body) for seen in live.upstream.requests] == [b'{"a":1}', b"{}"]
    assert [body_bytes(row["request_body"]) for row in live.rows()] == [b'{"a":1}', b"{}"]


def test_a_gzipped_request_arrives_as_it_is_and_is_logged_readable(live: Endpoint) -> None:
    plain = b'{"model":"claude-sonnet-4-5","messages":[]}'
    packed = gzip.compress(plain)
    live.send(live.message(packed, [*REQUEST_HEADERS, ("content-encoding", "gzip")]))
    [seen] = live.upstream.requests
    assert bytes(seen.body) == packed
    assert body_bytes(live.row()["request_body"]) == plain


def test_usage_is_read_from_a_compressed_stream_that_was_cut(endpoint: Endpoint) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"".join(EVENTS[:3])) + packer.flush(zlib.Z_SYNC_FLUSH)
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    endpoint.upstream.enqueue(cut_sse([packed], headers=headers))
    assert is_cut(endpoint)
    row = endpoint.row()
    assert (row["outcome"], row["usage_source"]) == ("upstream_interrupted", "estimated")
    assert (row["input_tokens"], row["model"]) == (11, "claude-sonnet-4-5-20250929")
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])


def test_an_answer_that_ends_with_its_connection_comes_back_whole(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(answer(200, message_json(), framing="close"))
    response = endpoint.send()
    assert (response.body, response.cut) == (message_json(), False)
    row = endpoint.row()
    assert (row["outcome"], body_bytes(row["response_body"])) == ("complete", message_json())


def test_an_idle_upstream_connection_that_closed_is_opened_again(live: Endpoint) -> None:
    live.upstream.enqueue(answer(200, b"{}").then(CLOSE))
    with live.connect() as client:
        assert client.exchange(live.message()).body == b"{}"
        assert live.upstream.requests[0].answered.wait(PATIENCE_S)
        barrier(live.service)
        assert client.exchange(live.message()).body == message_json()
    assert len({seen.connection for seen in live.upstream.requests}) == 2


def test_an_expected_continue_is_given_and_the_body_arrives(live: Endpoint) -> None:
    body = b'{"a":1}'
    with live.connect() as client:
        headers = [*REQUEST_HEADERS, ("Expect", "100-continue"), ("content-length", "7")]
        client.send(request("POST", live.target(), headers))
        assert client.read_head().status == 100
        client.send(body)
        assert client.read_response().status == 200
    [seen] = live.upstream.requests
    assert bytes(seen.body) == body
    assert seen.header("expect") is None


def test_an_http_1_0_client_gets_a_stream_without_chunks(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(sse(EVENTS))
    with endpoint.connect() as client:
        client.send(request("POST", endpoint.target(), REQUEST_HEADERS, b"{}", version="1.0"))
        response = client.read_response()
    assert response.header("transfer-encoding") is None
    assert response.body == STREAM


def test_requests_sent_at_once_are_answered_in_order_and_all_logged(endpoint: Endpoint) -> None:
    bodies = [message_json(text) for text in ("one", "two", "three")]
    endpoint.upstream.enqueue(*(answer(200, body) for body in bodies))
    with endpoint.connect() as client:
        client.send(b"".join(endpoint.message(b'{"n":%d}' % n) for n in range(3)))
        assert [client.read_response().body for _ in bodies] == bodies
    rows = endpoint.rows()
    assert [body_bytes(row["request_body"]) for row in rows] == [b'{"n":%d}' % n for n in range(3)]
    assert [body_bytes(row["response_body"]) for row in rows] == bodies


@pytest.mark.parametrize("host", ["localhost:80/..", "x@localhost"])
def test_a_host_that_is_not_one_plain_host_is_refused_everywhere(live: Endpoint, host: str) -> None:
    for target in (live.target(), "/settings/"):
        response = live.send(request("GET", target, [("Host", host)]))
        assert_own_error(response, 400, "invalid_request_error")
        assert response.header("location") is None
    assert live.upstream.requests == []
