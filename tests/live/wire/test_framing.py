"""The framing of requests and responses on the wire, in all awkward variants."""

import gzip
import zlib

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint, body_bytes
from tests.live.wire.checks import (
    EVENTS,
    assert_own_error,
    is_cut,
)
from tests.rawclient import request
from tests.upstream import (
    cut_sse,
    last_chunk,
)


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


@pytest.mark.parametrize("host", ["localhost:80/..", "x@localhost"])
def test_a_host_that_is_not_one_plain_host_is_refused_everywhere(live: Endpoint, host: str) -> None:
    for target in (live.target(), "/settings/"):
        response = live.send(request("GET", target, [("Host", host)]))
        assert_own_error(response, 400, "invalid_request_error")
        assert response.header("location") is None
    assert live.upstream.requests == []
