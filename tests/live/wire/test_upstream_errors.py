"""Errors of the upstream: passed on, cut short, or answered in our words."""

import json

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint, body_bytes
from tests.live.wire.checks import (
    EVENTS,
    HTML,
    JSON,
    STREAM,
    assert_own_error,
    is_cut,
    wait_spooled,
)
from tests.rawclient import Reset, request
from tests.upstream import (
    CLOSE,
    RESET,
    Action,
    Gate,
    Headers,
    Script,
    answer,
    cut_sse,
    error_json,
    event,
    head,
    sse,
)


def test_redirects_are_not_followed(live: Endpoint) -> None:
    headers = [("location", f"{live.upstream.url}/v1/elsewhere"), *JSON]
    live.upstream.enqueue(answer(307, b"{}", headers))
    response = live.send()
    assert (response.status, response.header("location")) == (307, headers[0][1])
    assert len(live.upstream.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "headers", "error_type"),
    [
        (400, error_json("invalid_request_error", "bad"), JSON, "invalid_request_error"),
        (401, error_json("authentication_error", "who?"), JSON, "authentication_error"),
        (404, error_json("not_found_error", "model: x"), JSON, "not_found_error"),
        (413, b"<html>too large</html>", HTML, None),
        (429, error_json("rate_limit_error", "slow"), JSON, "rate_limit_error"),
        (500, error_json("api_error", "oops"), JSON, "api_error"),
        (502, b"<html>bad gateway</html>", HTML, None),
        (503, b"", [], None),
        (529, error_json("overloaded_error", "busy"), JSON, "overloaded_error"),
    ],
)
def test_an_error_of_the_upstream_passes_unchanged_and_is_logged(
    endpoint: Endpoint, status: int, body: bytes, headers: Headers, error_type: str | None
) -> None:
    sent = [*headers, ("request-id", "req_9"), ("retry-after", "3")]
    endpoint.upstream.enqueue(answer(status, body, sent))
    response = endpoint.send()
    assert (response.status, response.body) == (status, body)
    assert response.head.headers == [*sent, ("content-length", str(len(body)))]
    row = endpoint.row()
    assert (row["status_code"], row["outcome"]) == (status, "upstream_error")
    assert (body_bytes(row["response_body"]) or b"") == body
    assert row["upstream_request_id"] == "req_9"
    if error_type:
        assert row["error_type"] == error_type


def test_an_error_event_under_status_200_is_an_upstream_error(endpoint: Endpoint) -> None:
    overloaded = event("error", error={"type": "overloaded_error", "message": "busy"})
    endpoint.upstream.enqueue(sse([*EVENTS[:3], overloaded]))
    response = endpoint.send()
    assert (response.status, response.body) == (200, b"".join(EVENTS[:3]) + overloaded)
    row = endpoint.row()
    assert (row["outcome"], row["error_type"]) == ("upstream_error", "overloaded_error")
    assert (row["status_code"], row["input_tokens"]) == (200, 11)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(cut_sse(EVENTS[:3], RESET), id="chunked"),
        pytest.param(
            Script((head(200, [*JSON, ("content-length", "100")]) + b'{"half":', RESET)),
            id="length",
        ),
    ],
)
def test_an_answer_that_is_reset_reaches_the_client_as_a_cut(
    endpoint: Endpoint, script: Script
) -> None:
    """One that is closed, at any byte, is in tests/live/transfers/test_cut_responses.py."""
    endpoint.upstream.enqueue(script)
    assert is_cut(endpoint)
    row = endpoint.row()
    assert row["outcome"] == "upstream_interrupted"
    stored = body_bytes(row["response_body"]) or b""  # a reset may overtake what was sent before it
    assert STREAM.startswith(stored) or stored == b'{"half":'


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_cut_answer_reaches_an_http_1_0_client_as_a_reset(
    endpoint: Endpoint, end: Action
) -> None:
    """Its answers end with the connection: an orderly close would make a part look whole."""
    gate = Gate()
    endpoint.upstream.enqueue(cut_sse([*EVENTS[:3], gate], end))
    with endpoint.connect() as client:
        client.send(request("POST", endpoint.target(), REQUEST_HEADERS, b"{}", version="1.0"))
        gate.wait_reached()
        wait_spooled(endpoint.service, EVENTS[2])
        gate.open()
        with pytest.raises(Reset):
            client.read_to_end()
    assert endpoint.row()["outcome"] == "upstream_interrupted"


# All others are in tests/addon/core/test_response_heads.py and tests/addon/http1/test_heads.py.
INVALID_HEADS = {
    "nul-in-a-reason": b"HTTP/1.1 200 O\x00K\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n",
    "many-header-lines": b"HTTP/1.1 200 OK\r\n" + b"x-bad:\r\n" * 200,
    "length-and-chunks": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n",
}


@pytest.mark.parametrize("invalid", INVALID_HEADS)
def test_a_response_head_that_is_not_valid_never_reaches_a_client(
    endpoint: Endpoint, invalid: str
) -> None:
    sent = INVALID_HEADS[invalid] + b"content-length: 2\r\n\r\n{}"
    endpoint.upstream.enqueue(*[Script((sent, CLOSE))] * 2)
    with endpoint.connect() as client:
        client.send(endpoint.message(b'{"x":1}'))
        raw = client.read_to_end()
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 ")
    assert b"x-taximeter-error: upstream_invalid" in head
    assert b"bad" not in head
    assert json.loads(body)["error"]["type"] == "api_error"
    not_logged = endpoint.send(endpoint.message(path="/v1/messages/count_tokens"))
    assert_own_error(not_logged, 502, "api_error")
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_interrupted", None)
    assert row["error_type"] == "upstream_invalid"
    assert body_bytes(row["request_body"]) == b'{"x":1}'
