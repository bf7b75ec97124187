"""The paths that are forwarded, logged or refused."""

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import error_of
from tests.rawclient import request
from tests.upstream import CLOSE, Script, Upstream, answer


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages?beta=true",
        "/v1/messages?a=1&a=2&b=%20%C3%BC+c",
        "/v1/messages?",
        "/v1/messages?x=/../y//z",
    ],
)
def test_the_query_arrives_unchanged_and_the_call_is_logged(live: Endpoint, path: str) -> None:
    live.send(live.message(path=path))
    assert [seen.target for seen in live.upstream.requests] == [path]
    assert live.row()["status_code"] == 200


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1", "both"),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"1" * 5000, "Content-Length"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: secret", "Transfer-Encoding"),
        (b"POST / HTTP/1.1\r\nsecret", "header line"),
        (b"secret", "first line"),
        (b"CONNECT a:443 HTTP/1.1\r\nHost: a:443", "tunnels"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_in_our_words(
    live: Endpoint, head: bytes, said: str
) -> None:
    with live.connect() as client:
        client.send(head + b"\r\n\r\n")
        response = client.read_response()
    message = error_of(response)["message"]
    assert said in message
    assert len(message) < 200
    for unknown in ("mitmproxy", "validate_inbound_headers", "sys.", "secret"):
        assert unknown not in message


def test_what_an_upstream_sent_in_place_of_a_head_is_not_quoted(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(Script((b"HTTP/1.1 200 secret", CLOSE)))
    message = error_of(endpoint.send(endpoint.message()))["message"]
    assert "within the head" in message
    assert "secret" not in message


def test_an_absolute_target_cannot_choose_another_upstream(live: Endpoint) -> None:
    with Upstream() as elsewhere:
        target = f"{elsewhere.url}{live.target()}"
        headers = [("Host", elsewhere.host), *REQUEST_HEADERS[1:]]
        live.send(request("POST", target, headers, b"{}"))
        assert elsewhere.requests == []
    assert all(seen.target == "/v1/messages" for seen in live.upstream.requests)
    assert len(live.rows()) == len(live.upstream.requests)


def test_head_of_an_endpoint_tells_whether_it_exists(live: Endpoint) -> None:
    known = live.send(request("HEAD", live.target(""), REQUEST_HEADERS))
    unknown = live.send(request("HEAD", "/proxy/nobody", REQUEST_HEADERS))
    assert (known.status, unknown.status) == (200, 404)
    assert live.upstream.requests == []


def test_one_connection_can_alternate_between_the_upstream_and_the_web(live: Endpoint) -> None:
    web = request("GET", "/", [("Host", live.service.host), ("Accept", "text/html")])
    with live.connect() as client:
        statuses = [
            client.exchange(data).status for data in (live.message(), web, live.message(), web)
        ]
    assert statuses[0] == statuses[2] == 200
    assert statuses[1] == statuses[3]
    assert statuses[1] in (200, 302, 303)
    assert len(live.rows()) == len(live.upstream.requests) == 2


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models?limit=1000"),
        ("GET", "/v1/messages/batches/msgbatch_1/results"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages/count_tokens?beta=true"),
        ("DELETE", "/v1/files/file_1"),
        ("GET", "/v1/messages"),
    ],
)
def test_other_paths_are_forwarded_and_not_logged(live: Endpoint, method: str, path: str) -> None:
    body = b'{"a":1}' if method == "POST" else None
    live.upstream.enqueue(answer(200, b'{"data":[]}'))
    response = live.send(request(method, live.target(path), REQUEST_HEADERS, body))
    assert (response.status, response.body) == (200, b'{"data":[]}')
    [seen] = live.upstream.requests
    assert (seen.method, seen.target, bytes(seen.body)) == (method, path, body or b"")
    assert live.rows() == []
