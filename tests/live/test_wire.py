"""What must hold on the wire between a client and the upstream, in all its awkward variants."""

import gzip
import json
import random
import socket
import ssl
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
import trustme
from mitmproxy.net import encoding

from store.control import api_keys
from store.control.database import ControlDatabase
from tests.live.conftest import EndpointFactory, ServiceFactory
from tests.live.service import API_KEY, REQUEST_HEADERS, Endpoint, Service, body_bytes
from tests.rawclient import Cut, RawClient, Reset, Response, request
from tests.upstream import (
    CLOSE,
    READ_BODY,
    RESET,
    SSE_HEADERS,
    STALL,
    Action,
    Gate,
    Headers,
    Script,
    Step,
    Upstream,
    answer,
    chunk,
    chunked,
    cut_sse,
    error_json,
    event,
    head,
    last_chunk,
    message_events,
    message_json,
    refusing_address,
    sse,
    wait_until,
)

JSON: Headers = [("content-type", "application/json")]
HTML: Headers = [("content-type", "text/html")]
MEBI = 1 << 20
BEARER = "sk-ant-oat01-dummy-abcdefghijklmnopqrstuvwxyz9876543210"
EVENTS = message_events(["Hel", "lo", " wörld"])
STREAM = b"".join(EVENTS)


def error_of(response: Response) -> dict[str, Any]:
    """The error of an answer in the upstream's envelope."""
    assert (response.header("content-type") or "").startswith("application/json")
    document = json.loads(response.body)
    assert document["type"] == "error"
    assert set(document["error"]) == {"type", "message"}
    assert document["error"]["message"]
    error: dict[str, Any] = document["error"]
    return error


def assert_own_error(response: Response, status: int, kind: str) -> None:
    """It is an answer of the proxy itself, and says so."""
    assert response.status == status
    assert response.header("x-taximeter-error")
    assert error_of(response)["type"] == kind


def barrier(service: Service) -> None:
    """After this answer the proxy's loop has dealt with all that had come in before it."""
    assert service.get("/livez").status == 200


# --- framing ------------------------------------------------------------------------------------

EARLY_HINTS = head(103, [("link", "</style.css>; rel=preload")])


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


def test_an_interim_response_in_one_write_with_the_final_one_is_swallowed(live: Endpoint) -> None:
    whole = EARLY_HINTS + head(200, [*JSON, ("content-length", "2")]) + b"{}"
    live.upstream.enqueue(Script((whole,)), answer(200, b"[]"))
    with live.connect() as client:
        assert [client.exchange(live.message()).body for _ in range(2)] == [b"{}", b"[]"]


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


def test_a_chunked_request_body_arrives_byte_identical(live: Endpoint) -> None:
    pieces = [b'{"a":"', "ü€\u2028".encode(), b"x" * 70_000, b'"}']
    with live.connect() as client:
        client.send(
            request("POST", live.target(), [*REQUEST_HEADERS, ("transfer-encoding", "chunked")])
        )
        for piece in pieces:
            client.send_chunk(piece)
        client.send(last_chunk())
        assert client.read_response().status == 200
    [seen] = live.upstream.requests
    assert bytes(seen.body) == b"".join(pieces)
    assert body_bytes(live.row()["request_body"]) == b"".join(pieces)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="not-json"),
        pytest.param(b"\x00\xff\xfe binary \x00", id="binary"),
        pytest.param(b'{"text":"a\\u0000b"}\r\n\x00', id="nul"),
        pytest.param('{"emoji":"😀"}  \n'.encode(), id="spaces-at-the-end"),
    ],
)
def test_any_request_body_arrives_and_is_logged_exactly(live: Endpoint, body: bytes) -> None:
    live.send(live.message(body))
    [seen] = live.upstream.requests
    assert bytes(seen.body) == body
    assert (body_bytes(live.row()["request_body"]) or b"") == body


def test_a_gzipped_request_arrives_as_it_is_and_is_logged_readable(live: Endpoint) -> None:
    plain = b'{"model":"claude-sonnet-4-5","messages":[]}'
    packed = gzip.compress(plain)
    live.send(live.message(packed, [*REQUEST_HEADERS, ("content-encoding", "gzip")]))
    [seen] = live.upstream.requests
    assert bytes(seen.body) == packed
    assert body_bytes(live.row()["request_body"]) == plain


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_an_encoded_answer_passes_as_it_is_and_is_logged_decoded(
    endpoint: Endpoint, coding: str
) -> None:
    packed = encoding.encode(STREAM, coding)
    assert isinstance(packed, bytes)
    headers = [("content-type", "text/event-stream"), ("content-encoding", coding)]
    endpoint.upstream.enqueue(sse([packed[:50], packed[50:]], headers))
    response = endpoint.send()
    assert (response.body, response.header("content-encoding")) == (packed, coding)
    row = endpoint.row()
    assert body_bytes(row["response_body"]) == STREAM
    assert (row["input_tokens"], row["output_tokens"]) == (11, 7)


def test_usage_is_read_from_a_compressed_stream_that_was_cut(endpoint: Endpoint) -> None:
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(b"".join(EVENTS[:3])) + packer.flush(zlib.Z_SYNC_FLUSH)
    headers = [("content-type", "text/event-stream"), ("content-encoding", "gzip")]
    endpoint.upstream.enqueue(cut_sse([packed], headers=headers))
    assert _is_cut(endpoint)
    row = endpoint.row()
    assert (row["outcome"], row["usage_source"]) == ("upstream_interrupted", "partial")
    assert (row["input_tokens"], row["model"]) == (11, "claude-sonnet-4-5-20250929")
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])


def test_an_answer_that_is_not_what_its_encoding_says_is_logged_as_it_came(live: Endpoint) -> None:
    live.upstream.enqueue(answer(200, b"plainly not gzip", [*JSON, ("content-encoding", "gzip")]))
    assert live.send().body == b"plainly not gzip"
    assert body_bytes(live.row()["response_body"]) == b"plainly not gzip"


def test_an_answer_that_ends_with_its_connection_comes_back_whole(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(answer(200, message_json(), framing="close"))
    response = endpoint.send()
    assert (response.body, response.cut) == (message_json(), False)
    row = endpoint.row()
    assert (row["outcome"], body_bytes(row["response_body"])) == ("complete", message_json())


def test_a_connection_that_upstream_announces_to_close_costs_no_later_request(
    live: Endpoint,
) -> None:
    closing = answer(200, b"{}", [*JSON, ("connection", "close")]).then(CLOSE)
    live.upstream.enqueue(closing)
    first = live.send()
    second = live.send()
    assert (first.body, second.status) == (b"{}", 200)


def test_an_idle_upstream_connection_that_closed_is_opened_again(live: Endpoint) -> None:
    live.upstream.enqueue(answer(200, b"{}").then(CLOSE))
    with live.connect() as client:
        assert client.exchange(live.message()).body == b"{}"
        assert live.upstream.requests[0].answered.wait(5)
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


def test_an_http_1_0_client_gets_its_answer(endpoint: Endpoint) -> None:
    with endpoint.connect() as client:
        client.send(request("POST", endpoint.target(), REQUEST_HEADERS, b"{}", version="1.0"))
        response = client.read_response()
        assert (response.status, response.body) == (200, message_json())
        assert client.is_closed_by_peer()
    assert endpoint.row()["outcome"] == "complete"


def test_an_http_1_0_client_gets_a_stream_without_chunks(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(sse(EVENTS))
    with endpoint.connect() as client:
        client.send(request("POST", endpoint.target(), REQUEST_HEADERS, b"{}", version="1.0"))
        response = client.read_response()
    assert response.header("transfer-encoding") is None
    assert response.body == STREAM


def test_a_client_that_asks_to_close_gets_its_answer_and_the_close(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(sse(EVENTS))
    with endpoint.connect() as client:
        response = client.exchange(
            endpoint.message(b"{}", [*REQUEST_HEADERS, ("Connection", "close")])
        )
        assert (response.body, response.header("connection")) == (STREAM, "close")
        assert client.is_closed_by_peer()


def test_requests_sent_at_once_are_answered_in_order_and_all_logged(endpoint: Endpoint) -> None:
    bodies = [message_json(text) for text in ("one", "two", "three")]
    endpoint.upstream.enqueue(*(answer(200, body) for body in bodies))
    with endpoint.connect() as client:
        client.send(b"".join(endpoint.message(b'{"n":%d}' % n) for n in range(3)))
        assert [client.read_response().body for _ in bodies] == bodies
    rows = endpoint.rows()
    assert [body_bytes(row["request_body"]) for row in rows] == [b'{"n":%d}' % n for n in range(3)]
    assert [body_bytes(row["response_body"]) for row in rows] == bodies


@pytest.mark.parametrize(
    "line_end", ["\r\n ", "\r\n\t", "\r"], ids=["folded-space", "folded-tab", "bare-cr"]
)
def test_a_header_cannot_hide_inside_the_value_of_another(live: Endpoint, line_end: str) -> None:
    """A server that reads folded lines or a bare CR as line ends would see a cookie."""
    headers = [*REQUEST_HEADERS, ("x-stainless-lang", f"python{line_end}Cookie: session=1")]
    response = live.send(live.message(b"{}", headers))
    assert response.status == 400 or all(
        b"\r\n " not in seen.head and b"\r\n\t" not in seen.head and b"\rC" not in seen.head
        for seen in live.upstream.requests
    )
    assert live.upstream.faults == []


CHUNKED_BODY = b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ([("Content-Length", "3"), ("Transfer-Encoding", "chunked")], CHUNKED_BODY),
        ([("Content-Length", "3"), ("Content-Length", "5")], b"hello"),
        ([("Content-Length", "3, 5")], b"hello"),
        ([("Content-Length", "+5")], b"hello"),
        ([("Content-Length", "-5")], b"hello"),
        ([("Transfer-Encoding", "xchunked")], CHUNKED_BODY),
        ([("Transfer-Encoding", "chunked, identity")], CHUNKED_BODY),
        ([("Transfer-Encoding ", "chunked")], CHUNKED_BODY),
        ([("Transfer-Encoding", "\x0bchunked")], CHUNKED_BODY),
        ([("Transfer-Encoding", "chunked\x0c")], CHUNKED_BODY),
        ([("Transfer-Encoding", "chunked\r")], CHUNKED_BODY),
        ([(" Content-Length", "5")], b"hello"),
    ],
    ids=lambda value: ", ".join(f"{n}:{v}" for n, v in value) if isinstance(value, list) else "",
)
def test_a_request_that_could_be_framed_in_two_ways_is_not_forwarded(
    live: Endpoint, headers: Headers, body: bytes
) -> None:
    smuggled = live.message(path="/v1/smuggled")
    with live.connect() as client:
        client.send(request("POST", live.target(), [*REQUEST_HEADERS, *headers]) + body + smuggled)
        try:
            response = client.read_response()
        except Cut:
            response = None
    assert response is None or response.status == 400
    assert live.upstream.requests == []
    assert live.rows() == []


@pytest.mark.parametrize("host", ["localhost:80/..", "x@localhost", "localhost?"])
def test_a_host_that_is_not_one_plain_host_is_refused_everywhere(live: Endpoint, host: str) -> None:
    for target in (live.target(), "/settings/"):
        response = live.send(request("GET", target, [("Host", host)]))
        assert_own_error(response, 400, "invalid_request_error")
        assert response.header("location") is None
    assert live.upstream.requests == []


# --- headers ------------------------------------------------------------------------------------


def test_allowed_headers_pass_in_order_with_their_case_and_doubles(live: Endpoint) -> None:
    headers = [
        ("Host", "taximeter.test"),
        ("Accept", "application/json"),
        ("accept-Encoding", "gzip, br"),
        ("Accept-Language", "de"),
        ("anthropic-VERSION", "2023-06-01"),
        ("anthropic-beta", "one"),
        ("anthropic-beta", "two,three"),
        ("Anthropic-Dangerous-Direct-Browser-Access", "true"),
        ("X-Api-Key", API_KEY),
        ("Authorization", f"Bearer {BEARER}"),
        ("User-Agent", "test/1.0 (x; y)"),
        ("x-app", "cli"),
        ("X-Stainless-Retry-Count", "0"),
        ("x-stainless-helper", "a, b"),
        ("x-claude-code-session-id", "s-1"),
        ("Content-Type", "application/json; charset=utf-8"),
        ("content-language", "en"),
        ("Idempotency-Key", "k-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "a=1,b=2"),
        ("x-sdk-telemetry", "1"),
    ]
    live.send(live.message(b"{}", headers))
    [seen] = live.upstream.requests
    sent = [("Host", live.upstream.host), *headers[1:], ("content-length", "2")]
    assert seen.headers == sent


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Cookie", "session=1"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("x-forwarded-proto", "https"),
        ("X-Forwarded-Host", "evil"),
        ("Forwarded", "for=10.0.0.1"),
        ("x-real-ip", "10.0.0.1"),
        ("Via", "1.1 somewhere"),
        ("x-foo", "1"),
        ("x-taximeter-client", "token 1.2.3.4"),
        ("Referer", "https://evil.test/"),
        ("sec-fetch-mode", "cors"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authorization", "Basic eDp5"),
        ("Proxy-Connection", "keep-alive"),
        ("TE", "trailers"),
        ("Trailer", "x-checksum"),
        ("Connection", "keep-alive"),
    ],
)
def test_other_request_headers_are_not_forwarded(live: Endpoint, name: str, value: str) -> None:
    assert live.send(live.message(b"{}", [*REQUEST_HEADERS, (name, value)])).status == 200
    [seen] = live.upstream.requests
    assert seen.header_values(name) == []


def test_response_headers_come_back_as_they_are(endpoint: Endpoint) -> None:
    headers = [
        ("Content-Type", "application/json"),
        ("request-id", "req_1"),
        ("Set-Cookie", "a=1; path=/; HttpOnly"),
        ("set-cookie", "b=2; path=/"),
        ("X-Should-Retry", "false"),
        ("retry-after", "7"),
        ("anthropic-ratelimit-requests-remaining", "19999"),
        ("Location", "/elsewhere"),
        ("x-unknown", "ä".encode().decode("latin-1")),
        ("Server", "cloudflare"),
        ("Via", "1.1 google"),
    ]
    endpoint.upstream.enqueue(answer(200, message_json(), headers))
    response = endpoint.send()
    length = ("content-length", str(len(message_json())))
    assert response.head.headers == [*headers, length]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Alt-Svc", 'h3=":443"; ma=86400'),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Authenticate", "Basic"),
        ("Trailer", "x-checksum"),
        ("Upgrade", "h2c"),
    ],
)
def test_response_headers_between_hops_do_not_come_back(
    live: Endpoint, name: str, value: str
) -> None:
    live.upstream.enqueue(answer(200, b"{}", [*JSON, (name, value)]))
    response = live.send()
    assert (response.body, response.head.header_values(name)) == (b"{}", [])


def test_an_upstream_credential_does_not_vanish_by_being_named_in_connection(
    live: Endpoint,
) -> None:
    headers = [*REQUEST_HEADERS, ("Connection", "x-api-key, content-length, anthropic-beta")]
    assert live.send(live.message(b'{"a":1}', headers)).status == 200
    [seen] = live.upstream.requests
    assert seen.header("x-api-key") == API_KEY
    assert bytes(seen.body) == b'{"a":1}'


# --- paths --------------------------------------------------------------------------------------


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


def test_a_doubled_slash_before_the_version_is_forwarded_as_one(live: Endpoint) -> None:
    live.send(live.message(path="//v1/messages?beta=true"))
    assert [seen.target for seen in live.upstream.requests] == ["/v1/messages?beta=true"]
    assert live.row()["outcome"] == "complete"


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/",
        "/v1//messages",
        "///v1/messages",
        "/v1/messages//count_tokens",
        "/v1/./messages",
        "/v1/../v1/messages",
        "/../v1/messages",
        "/v1/messages/..",
        "/v1/%2e%2e/messages",
        "/v1/%2E./messages",
        "/v1/%2fmessages",
        "/v1%2Fmessages",
        "/v1/messages%2f",
        "/v1/%5cmessages",
        "/v1/\\messages",
        "/v1/messages#frag",
        "/v1/messages?a=1#frag",
        "/v1/messages%00",
        "/v1/messages%",
        "/v2/messages",
        "/messages",
        "/v1",
        "/v1/",
        "",
    ],
)
def test_a_path_that_could_be_read_in_two_ways_is_refused(live: Endpoint, path: str) -> None:
    response = live.send(live.message(path=path))
    assert 400 <= response.status < 500
    assert response.header("x-taximeter-error")
    assert error_of(response)
    assert live.upstream.requests == []
    assert live.rows() == []


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


def test_an_upgrade_is_refused(live: Endpoint) -> None:
    headers = [*REQUEST_HEADERS, ("Connection", "Upgrade"), ("Upgrade", "websocket")]
    response = live.send(live.message(b"{}", headers))
    assert_own_error(response, 400, "invalid_request_error")
    assert live.upstream.requests == []


def test_an_absolute_target_cannot_choose_another_upstream(live: Endpoint) -> None:
    with Upstream() as elsewhere:
        target = f"{elsewhere.url}{live.target()}"
        headers = [("Host", elsewhere.host), *REQUEST_HEADERS[1:]]
        live.send(request("POST", target, headers, b"{}"))
        assert elsewhere.requests == []
    assert all(seen.target == "/v1/messages" for seen in live.upstream.requests)
    assert len(live.rows()) == len(live.upstream.requests)


def test_a_connect_request_goes_nowhere(live: Endpoint) -> None:
    with live.connect() as client:
        client.send(request("CONNECT", live.upstream.host, [("Host", live.upstream.host)]))
        assert client.read_response().status >= 400
    assert live.upstream.connections == 0 or live.upstream.requests == []


def test_an_unknown_slug_is_not_found_in_the_upstreams_envelope(live: Endpoint) -> None:
    response = live.send(request("POST", "/proxy/nobody/v1/messages", REQUEST_HEADERS, b"{}"))
    assert_own_error(response, 404, "not_found_error")
    assert live.upstream.requests == []


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


def test_count_tokens_is_forwarded_and_not_logged(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(answer(200, b'{"input_tokens":3}'))
    response = endpoint.send(endpoint.message(path="/v1/messages/count_tokens?beta=true"))
    assert response.body == b'{"input_tokens":3}'
    assert [seen.target for seen in endpoint.upstream.requests] == [
        "/v1/messages/count_tokens?beta=true"
    ]
    assert endpoint.rows() == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models?limit=1000"),
        ("GET", "/v1/messages/batches/msgbatch_1/results"),
        ("POST", "/v1/messages/batches"),
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


PAGE = "https://app.example.org"


@pytest.fixture(scope="module")
def customised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    """A service with a path prefix at its upstream, header prefixes of its operator, and an origin
    whose pages may call it."""
    with (
        Upstream() as upstream,
        Service(
            tmp_path_factory.mktemp("customised"),
            f"{upstream.url}/some/prefix",
            FORWARD_HEADERS="x-team-,x-trace-id",
            ALLOWED_ORIGINS=PAGE,
        ) as service,
    ):
        yield Endpoint(service, upstream, "default")


def test_a_path_prefix_of_the_upstream_is_kept_in_front(customised: Endpoint) -> None:
    customised.upstream.reset()
    customised.send(customised.message(path="/v1/messages?beta=true"))
    customised.send(customised.message(path="//v1/messages/count_tokens"))
    assert [seen.target for seen in customised.upstream.requests] == [
        "/some/prefix/v1/messages?beta=true",
        "/some/prefix/v1/messages/count_tokens",
    ]
    assert [row["outcome"] for row in customised.rows()] == ["complete"]


def test_header_prefixes_of_the_operator_are_forwarded_too(customised: Endpoint) -> None:
    customised.upstream.reset()
    extra = [("X-Team-Name", "a"), ("x-trace-id", "b"), ("x-foo", "c")]
    customised.send(customised.message(b"{}", [*REQUEST_HEADERS, *extra]))
    [seen] = customised.upstream.requests
    assert [pair for pair in seen.headers if pair in extra] == extra[:2]


# --- browsers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/files"])
@pytest.mark.parametrize(
    ("sign", "code"),
    [
        (("Origin", "https://evil.test"), "origin_refused"),
        (("Origin", "null"), "origin_refused"),
        (("Sec-Fetch-Site", "cross-site"), "origin_refused"),
        (("Sec-Fetch-Site", "same-origin"), "origin_refused"),
        (("Sec-Fetch-Mode", "navigate"), "navigation_refused"),
        (("Upgrade-Insecure-Requests", "1"), "navigation_refused"),
        (("Accept", "text/html,*/*;q=0.8"), "navigation_refused"),
    ],
)
def test_a_browsers_request_is_not_forwarded(
    live: Endpoint, path: str, sign: tuple[str, str], code: str
) -> None:
    response = live.send(live.message(b"{}", [*REQUEST_HEADERS, sign], path=path))
    assert_own_error(response, 403, "permission_error")
    assert response.header("x-taximeter-error") == code
    assert response.header("access-control-allow-origin") is None
    assert live.upstream.requests == []
    assert live.rows() == []


def test_an_image_of_another_site_does_not_reach_the_upstream(live: Endpoint) -> None:
    """Over plain http to an IP address a browser sends neither Origin nor Sec-Fetch-Site with it."""
    sent = [("Host", "192.168.1.5:8080"), ("User-Agent", "Mozilla/5.0"), ("Accept", "image/*")]
    referer = ("Referer", "http://evil.test/")
    response = live.send(request("GET", live.target("/v1/models"), [*sent, referer]))
    assert_own_error(response, 403, "permission_error")
    assert live.upstream.requests == []


def test_a_preflight_of_an_origin_that_is_not_listed_is_refused(live: Endpoint) -> None:
    asked = [("Origin", PAGE), ("Access-Control-Request-Method", "POST")]
    response = live.send(request("OPTIONS", live.target(), [*REQUEST_HEADERS, *asked]))
    assert_own_error(response, 403, "permission_error")
    assert response.header("access-control-allow-origin") is None


def test_a_preflight_of_a_listed_origin_is_answered_here(customised: Endpoint) -> None:
    customised.upstream.reset()
    asked = [
        ("Origin", PAGE),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "anthropic-version,content-type,x-api-key"),
        ("Access-Control-Request-Private-Network", "true"),
    ]
    for slug in ("default", "nobody"):
        target = f"/proxy/{slug}/v1/messages"
        response = customised.service.send(request("OPTIONS", target, [("Host", "x"), *asked]))
        assert (response.status, response.body) == (200, b"")
        assert response.header("access-control-allow-origin") == PAGE
        assert response.header("access-control-allow-private-network") == "true"
        assert response.header("access-control-allow-headers") == asked[2][1]
        assert "origin" in response.head.header_values("vary")
    assert customised.upstream.requests == []


@pytest.mark.parametrize(
    ("script", "path", "status"),
    [
        (answer(200, message_json(), [*JSON, ("set-cookie", "a=1")]), "/v1/messages", 200),
        (answer(529, error_json("overloaded_error", "busy"), JSON), "/v1/messages", 529),
        (answer(200, b"{}", [*HTML, ("clear-site-data", "*")]), "/v1/models", 200),
        (Script((CLOSE,)), "/v1/messages", 502),
        (None, "/v1/../messages", 400),
        (None, "/messages", 404),
    ],
)
def test_whatever_a_listed_page_gets_it_may_read_and_nothing_acts_on_our_origin(
    customised: Endpoint, script: Script | None, path: str, status: int
) -> None:
    customised.upstream.reset()
    if script:
        customised.upstream.enqueue(script)
    headers = [*REQUEST_HEADERS, ("Origin", PAGE), ("Sec-Fetch-Site", "cross-site")]
    response = customised.send(customised.message(b"{}", headers, path=path))
    assert response.status == status
    assert response.header("access-control-allow-origin") == PAGE
    assert response.header("access-control-expose-headers") == "*"
    assert response.header("vary") == "origin"
    assert response.header("content-security-policy") == "sandbox"
    assert response.header("x-content-type-options") == "nosniff"
    assert response.header("set-cookie") is response.header("clear-site-data") is None
    assert all(seen.header("origin") is None for seen in customised.upstream.requests)


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "limit", "entries"),
    [("/v1/messages", 300, 300), ("/v1/messages/count_tokens", 600, 0), ("/v1/models", 600, 0)],
)
def test_the_request_after_the_limit_is_refused_and_makes_no_entry(
    live: Endpoint, make_endpoint: EndpointFactory, path: str, limit: int, entries: int
) -> None:
    with live.connect() as client:
        statuses = {client.exchange(live.message(path=path)).status for _ in range(limit)}
        refused = client.exchange(live.message(path=path))
    assert statuses == {200}
    assert_own_error(refused, 429, "rate_limit_error")
    assert 1 <= int(refused.header("retry-after") or "") <= 60
    assert len(live.upstream.requests) == limit
    assert len(live.rows()) == entries
    other = make_endpoint("live")
    assert other.send(other.message(path=path)).status == 200


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


def test_a_message_of_unknown_length_that_grows_too_large_is_an_entry_if_it_was_forwarded(
    live: Endpoint,
) -> None:
    with live.connect() as client:
        client.send(
            request("POST", live.target(), [*REQUEST_HEADERS, ("transfer-encoding", "chunked")])
        )
        try:
            for _ in range(34):
                client.send_chunk(bytes(MEBI))
            client.send(last_chunk())
            client.read_response()
        except (Cut, OSError):
            pass
    assert len(live.rows()) == len(live.upstream.requests)


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
    assert live.upstream.requests[0].abandoned.wait(5)
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


def test_an_upstream_that_closes_on_a_large_message_is_an_entry(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(Script((RESET,), early=True))
    response = endpoint.send(endpoint.message(bytes(20 * MEBI)))
    assert_own_error(response, 502, "api_error")
    assert endpoint.row()["outcome"] == "upstream_interrupted"


def test_an_upstream_that_answers_during_an_upload_is_heard(live: Endpoint) -> None:
    refusal = error_json("request_too_large", "no more than 500 MB")
    live.upstream.enqueue(answer(413, refusal, early=True).then(READ_BODY))
    with live.connect() as client:
        headers = [*REQUEST_HEADERS, ("content-length", str(40 * MEBI))]
        client.send(request("POST", live.target("/v1/files"), headers) + bytes(MEBI))
        response = client.read_response()
    assert (response.status, response.body) == (413, refusal)


# --- errors of the upstream ---------------------------------------------------------------------


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


def test_a_stream_that_ends_cleanly_without_an_end_event_is_interrupted(endpoint: Endpoint) -> None:
    endpoint.upstream.enqueue(sse(EVENTS[:3]))
    response = endpoint.send()
    assert (response.body, response.cut) == (b"".join(EVENTS[:3]), False)
    row = endpoint.row()
    assert (row["outcome"], row["usage_source"]) == ("upstream_interrupted", "partial")


def _length_too_long(end: Action) -> Script:
    return Script((head(200, [*JSON, ("content-length", "100")]) + b'{"half":', end))


@pytest.mark.parametrize(
    ("script", "arrived"),
    [
        pytest.param(cut_sse(EVENTS[:3], CLOSE), b"".join(EVENTS[:3]), id="chunked-close"),
        pytest.param(cut_sse(EVENTS[:3], RESET), None, id="chunked-reset"),
        pytest.param(_length_too_long(CLOSE), b'{"half":', id="length-close"),
        pytest.param(_length_too_long(RESET), None, id="length-reset"),
        pytest.param(
            cut_sse(EVENTS[:3]).preceded_by(EARLY_HINTS), b"".join(EVENTS[:3]), id="after-103"
        ),
    ],
)
def test_a_cut_answer_reaches_the_client_as_a_cut(
    endpoint: Endpoint, script: Script, arrived: bytes | None
) -> None:
    endpoint.upstream.enqueue(script)
    assert _is_cut(endpoint)
    row = endpoint.row()
    assert row["outcome"] == "upstream_interrupted"
    stored = body_bytes(row["response_body"]) or b""
    if arrived is None:  # a reset may overtake what was sent before it
        assert STREAM.startswith(stored) or stored == b'{"half":'
    else:
        assert (stored, row["status_code"]) == (arrived, 200)


def _is_cut(endpoint: Endpoint) -> bool:
    """Did the client hear that its answer is not whole, and nothing that looks like another?"""
    try:
        response = endpoint.send()
    except Cut:
        return True
    if response.status == 502:  # nothing of the answer had come when a reset overtook it
        return True
    return response.cut and response.status == 200


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
        _wait_spooled(endpoint.service, EVENTS[2])
        gate.open()
        with pytest.raises(Reset):
            client.read_to_end()
    assert endpoint.row()["outcome"] == "upstream_interrupted"


def test_what_came_before_a_cut_reaches_a_live_client(live: Endpoint) -> None:
    gate = Gate()
    live.upstream.enqueue(cut_sse([*EVENTS[:3], gate], RESET))
    with live.connect() as client:
        client.send(live.message())
        response = client.read_response_head()
        pieces = client.iter_body(response)
        arrived = b""
        while len(arrived) < len(b"".join(EVENTS[:3])):
            arrived += next(pieces)
        assert arrived == b"".join(EVENTS[:3])
        gate.open()
        with pytest.raises(Cut):
            next(pieces)
    row = live.row()
    assert (row["outcome"], row["usage_source"]) == ("upstream_interrupted", "partial")
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])
    assert row["input_tokens"] == 11


def test_a_bad_chunk_is_a_cut(endpoint: Endpoint) -> None:
    bad = Script((head(200, [("transfer-encoding", "chunked")]), chunk(b"good"), b"XYZ\r\nbad\r\n"))
    endpoint.upstream.enqueue(bad)
    assert _is_cut(endpoint)
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_interrupted", 200)
    assert body_bytes(row["response_body"]) == b"good"


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((CLOSE,), id="close"),
        pytest.param((RESET,), id="reset"),
        pytest.param((b"this is not http\r\n\r\n", CLOSE), id="garbage"),
        pytest.param((b"HTTP/1.1 2", CLOSE), id="half-a-status-line"),
        pytest.param((EARLY_HINTS, CLOSE), id="only-103"),
    ],
)
def test_an_upstream_that_gives_no_answer_is_a_502_and_an_entry(
    endpoint: Endpoint, steps: tuple[Step, ...]
) -> None:
    endpoint.upstream.enqueue(Script(steps))
    response = endpoint.send(endpoint.message(b'{"x":1}'))
    assert_own_error(response, 502, "api_error")
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_interrupted", None)
    assert body_bytes(row["request_body"]) == b'{"x":1}'
    assert len(endpoint.upstream.requests) == 1


def test_an_upstream_cannot_pass_its_error_off_as_ours(endpoint: Endpoint) -> None:
    forged = [("X-Taximeter-Error", "rate_limited"), ("content-length", "2")]
    endpoint.upstream.enqueue(Script((head(429, forged), b"{}")))
    response = endpoint.send(endpoint.message())
    assert (response.status, response.header("x-taximeter-error")) == (429, None)


INVALID_HEADS = {
    "status-of-two-digits": b"HTTP/1.1 20 X\r\n",
    "status-below-100": b"HTTP/1.1 099 X\r\n",
    "status-above-599": b"HTTP/1.1 600 X\r\n",
    "status-of-four-digits": b"HTTP/1.1 2000 X\r\n",
    "nul-in-a-reason": b"HTTP/1.1 200 O\x00K\r\n",
    "unrequested-upgrade": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n",
    "nul-in-a-value": b"HTTP/1.1 200 OK\r\nx-bad: a\x00b\r\n",
    "bare-cr-in-a-value": b"HTTP/1.1 200 OK\r\nx-bad: a\rset-cookie: b=1\r\n",
    "folded-line": b"HTTP/1.1 200 OK\r\nx-bad: a\r\n b\r\n",
    "folded-first-line": b"HTTP/1.1 200 OK\r\n x-bad: a\r\n",
    "nul-in-a-name": b"HTTP/1.1 200 OK\r\nx-\x00bad: a\r\n",
    "blank-in-a-name": b"HTTP/1.1 200 OK\r\nx-bad : a\r\n",
    "no-colon": b"HTTP/1.1 200 OK\r\nx-bad\r\n",
    "two-lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n",
    "many-header-lines": b"HTTP/1.1 200 OK\r\n" + b"x-bad:\r\n" * 200,
    "many-bytes": b"HTTP/1.1 200 OK\r\nx-bad: " + b"x" * 65536 + b"\r\n",
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


def test_a_refusing_upstream_is_a_502_and_an_entry(service_factory: ServiceFactory) -> None:
    with refusing_address() as url:
        service = service_factory(url)
        response = service.send(
            request("POST", "/proxy/default/v1/messages", REQUEST_HEADERS, b'{"x":1}')
        )
        assert_own_error(response, 502, "api_error")
        [row] = service.settled_rows()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)
    assert body_bytes(row["request_body"]) == b'{"x":1}'
    assert service.health() == 200


# --- timeouts -----------------------------------------------------------------------------------

SHORT = "connect=1,first_byte=1,idle=1"


@pytest.fixture(scope="module")
def impatient(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, Upstream]]:
    """A service that waits a second for anything."""
    with (
        Upstream() as upstream,
        Service(
            tmp_path_factory.mktemp("impatient"), upstream.url, UPSTREAM_TIMEOUT=SHORT
        ) as service,
    ):
        yield service, upstream


@pytest.fixture(params=["live", "buffered"])
def impatient_endpoint(
    request: pytest.FixtureRequest, impatient: tuple[Service, Upstream]
) -> Endpoint:
    service, upstream = impatient
    upstream.reset()
    slug = f"impatient-{len(service.rows())}-{request.param}"
    service.create_endpoint(slug, request.param)
    return Endpoint(service, upstream, slug)


def test_an_upstream_that_never_answers_is_a_504_and_an_entry(impatient_endpoint: Endpoint) -> None:
    impatient_endpoint.upstream.enqueue(Script((STALL,)))
    response = impatient_endpoint.send()
    assert_own_error(response, 504, "api_error")
    row = impatient_endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)
    assert impatient_endpoint.upstream.requests[0].abandoned.wait(5)


def test_an_answer_that_falls_silent_is_cut_and_an_entry(impatient_endpoint: Endpoint) -> None:
    impatient_endpoint.upstream.enqueue(cut_sse(EVENTS[:3], STALL))
    assert _is_cut(impatient_endpoint)
    row = impatient_endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", 200)
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])
    assert impatient_endpoint.upstream.requests[0].abandoned.wait(5)


def test_a_tls_handshake_that_never_ends_is_a_504_and_an_entry(
    service_factory: ServiceFactory,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        service = service_factory(f"https://127.0.0.1:{port}", UPSTREAM_TIMEOUT=SHORT)
        response = service.send(
            request("POST", "/proxy/default/v1/messages", REQUEST_HEADERS, b"{}")
        )
        assert_own_error(response, 504, "api_error")
        [row] = service.settled_rows()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)


# --- streaming ----------------------------------------------------------------------------------


def test_live_each_event_arrives_before_the_upstream_sends_the_next(live: Endpoint) -> None:
    gates = [Gate() for _ in EVENTS]
    live.upstream.enqueue(sse([step for pair in zip(EVENTS, gates, strict=True) for step in pair]))
    with live.connect() as client:
        client.send(live.message())
        response = client.read_response_head()
        pieces = client.iter_body(response)
        for expected, gate in zip(EVENTS, gates, strict=True):
            assert next(pieces) == expected
            gate.wait_reached()
            gate.open()
        assert list(pieces) == []
    assert body_bytes(live.row()["response_body"]) == STREAM


def test_buffered_nothing_arrives_before_the_upstream_has_ended(buffered: Endpoint) -> None:
    gate = Gate()
    buffered.upstream.enqueue(sse([*EVENTS[:-1], gate, EVENTS[-1]]))
    with buffered.connect() as client:
        client.send(buffered.message())
        gate.wait_reached()
        _wait_spooled(buffered.service, b"content_block_stop")
        barrier(buffered.service)
        assert b"event:" not in client.arrived()
        gate.open()
        assert client.read_response().body == STREAM
    row = buffered.row()
    assert (body_bytes(row["response_body"]), row["outcome"]) == (STREAM, "complete")


def test_buffered_a_response_above_32_mb_goes_on_before_the_upstream_has_ended(
    buffered: Endpoint,
) -> None:
    body, rest, gate = random.Random(9).randbytes(33 * MEBI), b"the rest", Gate()  # noqa: S311
    start = head(200, [*JSON, ("content-length", str(len(body) + len(rest)))])
    buffered.upstream.enqueue(Script((start, body, gate, rest)))
    with buffered.connect() as client:
        client.send(buffered.message())
        arriving, received = client.iter_body(client.read_response_head()), bytearray()
        while len(received) < len(body):
            received += next(arriving)
        assert received == body
        gate.open()
        assert b"".join(arriving) == rest
    assert buffered.row()["outcome"] == "complete"


def _wait_spooled(service: Service, text: bytes) -> None:
    """Wait until the proxy has got so far with an answer."""
    service.wait_until(
        lambda: any(text in path.read_bytes() for path in service.data_dir.glob("spool/*/*.open")),
        f"{text!r} in the spool",
    )


def test_an_endpoint_that_keeps_metadata_only_stores_no_body(
    make_endpoint: EndpointFactory,
) -> None:
    endpoint = make_endpoint("live", metadata_only=True)
    question, reply = "what-is-nobodys-business", "neither-is-this"
    endpoint.upstream.enqueue(sse(message_events([reply])))
    asked = {
        "model": "claude-asked-for",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": question}] * 3,
        "metadata": {"user_id": "user_1_account__session_5f3c"},
    }
    endpoint.send(endpoint.message(json.dumps(asked).encode()))
    row = endpoint.row()
    assert (row["request_body"], row["response_body"]) == (None, None)
    assert (row["input_tokens"], row["output_tokens"]) == (11, 7)
    assert (row["request_model"], row["session_id"]) == ("claude-asked-for", "5f3c")
    assert (row["max_tokens"], row["message_count"], row["tool_count"]) == (50, 3, 0)
    assert row["body_notes"] == "request not kept: metadata only; response not kept: metadata only"
    assert _files_with(endpoint.service, question.encode(), reply.encode()) == []


# --- clients that leave -------------------------------------------------------------------------


def _leave(client: RawClient, how: str) -> None:
    if how == "reset":
        client.reset()
    else:
        client.close()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_before_the_answer_ends_the_upstream_call(
    endpoint: Endpoint, how: str
) -> None:
    endpoint.upstream.enqueue(Script((STALL,)))
    client = endpoint.connect()
    client.send(endpoint.message(b'{"x":1}'))
    [seen] = endpoint.upstream.wait_for_requests(1)
    _leave(client, how)
    assert seen.abandoned.wait(5)
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("client_disconnected", None)
    assert body_bytes(row["request_body"]) == b'{"x":1}'


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_during_the_answer_ends_the_upstream_call(
    endpoint: Endpoint, how: str
) -> None:
    gate = Gate()
    endpoint.upstream.enqueue(sse([*EVENTS[:3], gate, *EVENTS[3:]]))
    client = endpoint.connect()
    client.send(endpoint.message())
    gate.wait_reached()
    _wait_spooled(endpoint.service, EVENTS[2])
    _leave(client, how)
    assert endpoint.upstream.requests[0].abandoned.wait(5)
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("client_disconnected", 200)
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])
    assert (row["usage_source"], row["input_tokens"]) == ("partial", 11)


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_after_the_answer_changes_nothing(
    endpoint: Endpoint, how: str
) -> None:
    endpoint.upstream.enqueue(sse(EVENTS))
    client = endpoint.connect()
    assert client.exchange(endpoint.message()).body == STREAM
    _leave(client, how)
    row = endpoint.row()
    assert (row["outcome"], row["output_tokens"]) == ("complete", 7)


def test_a_client_that_leaves_during_its_request_is_not_forwarded(live: Endpoint) -> None:
    client = live.connect()
    client.send(request("POST", live.target(), [*REQUEST_HEADERS, ("content-length", "9")]) + b"1")
    barrier(live.service)
    client.reset()
    barrier(live.service)
    assert live.rows() == []
    assert live.upstream.requests == []


# --- TLS ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_upstream(authority: trustme.CA) -> Iterator[Upstream]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with Upstream(tls=context) as upstream:
        assert urlsplit(upstream.url).hostname == "localhost"
        yield upstream


def test_an_upstream_with_an_unknown_certificate_is_a_502(
    tls_upstream: Upstream, service_factory: ServiceFactory
) -> None:
    endpoint = Endpoint(service_factory(tls_upstream.url), tls_upstream, "default")
    assert_own_error(endpoint.send(), 502, "api_error")
    assert tls_upstream.requests == []
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)


def test_an_authority_named_in_ssl_cert_file_is_trusted(
    tls_upstream: Upstream, service_factory: ServiceFactory, authority: trustme.CA
) -> None:
    with authority.cert_pem.tempfile() as path:
        service = service_factory(tls_upstream.url, SSL_CERT_FILE=path)
        endpoint = Endpoint(service, tls_upstream, "default")
        tls_upstream.enqueue(sse(EVENTS))
        response = endpoint.send()
    assert (response.status, response.body) == (200, STREAM)
    assert endpoint.row()["outcome"] == "complete"


# --- what an entry holds ------------------------------------------------------------------------

COLUMNS = {
    *("id", "entry_id", "created_at", "proxy_endpoint_id", "slug", "model", "input_tokens"),
    *("output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cost_cents"),
    *("duration_ms", "status_code", "request_body", "response_body", "streamed", "outcome"),
    *("usage_source", "ttfb_ms", "proxy_overhead_ms", "request_model", "upstream_request_id"),
    *("session_id", "agent_id", "client", "service_tier", "request_bytes", "response_bytes"),
    *("error_type", "credential_hmac"),
}


def test_an_entry_has_every_column_of_the_contract(live: Endpoint) -> None:
    gate = Gate()
    headers = [("request-id", "req_7"), *SSE_HEADERS]
    live.upstream.enqueue(sse([*EVENTS[:2], gate, *EVENTS[2:]], headers))
    sent = [
        *REQUEST_HEADERS,
        ("User-Agent", "claude-cli/2.1.283 (external, cli)"),
        ("x-claude-code-session-id", "session-1"),
        ("x-claude-code-agent-id", "agent-1"),
    ]
    body = b'{"model":"claude-sonnet-4-5","stream":true,"messages":[]}'
    with live.connect() as client:
        client.send(live.message(body, sent))
        response = client.read_response_head()
        pieces = client.iter_body(response)
        next(pieces)
        gate.open()
        assert list(pieces)
    row = live.row()
    assert set(row) >= COLUMNS
    assert row["created_at"].endswith("Z")
    assert 0 <= row["ttfb_ms"] <= row["duration_ms"]
    assert row["proxy_overhead_ms"] >= 0
    assert row["request_model"] == "claude-sonnet-4-5"
    assert row["upstream_request_id"] == "req_7"
    assert (row["session_id"], row["agent_id"]) == ("session-1", "agent-1")
    assert row["client"].startswith("claude-cli")
    assert (row["request_bytes"], row["response_bytes"]) == (len(body), len(STREAM))
    assert row["usage_source"] == "final"
    assert row["streamed"]
    assert float(row["cost_cents"]) == pytest.approx((11 * 3 + 7 * 15) / 10_000)


# --- credentials --------------------------------------------------------------------------------


def _files_with(service: Service, *needles: bytes) -> list[str]:
    """Where in the data directory any of these is found."""
    return [
        path.name
        for path in service.data_dir.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


def test_no_credential_is_kept_or_printed_anywhere(endpoint: Endpoint) -> None:
    cookie = "session-of-nobody-else-314159"
    headers = [
        *REQUEST_HEADERS,
        ("Authorization", f"Bearer {BEARER}"),
        ("Cookie", f"a={cookie}"),
        ("Proxy-Authorization", f"Basic {cookie}"),
        ("X-Claude-Code-Session-Id", BEARER),
        ("Anthropic-Beta", BEARER),
    ]
    endpoint.upstream.enqueue(
        sse(EVENTS, [("set-cookie", f"a={cookie}"), ("content-type", "text/event-stream")]),
        answer(401, error_json("authentication_error", "invalid x-api-key"), JSON),
        Script((b"garbage", CLOSE)),
        cut_sse(EVENTS[:2], RESET),
        answer(200, b'{"input_tokens":1}'),
    )
    for _ in range(3):
        endpoint.send(endpoint.message(b"{}", headers))
    _is_cut(endpoint)
    endpoint.send(endpoint.message(b"{}", headers, path="/v1/messages/count_tokens"))
    endpoint.send(endpoint.message(b"{}", headers, path="/v1/../messages"))
    endpoint.send(request("POST", "/proxy/nobody/v1/messages", headers, b"{}"))
    endpoint.send(request("GET", "/", [("x-api-key", API_KEY), ("Host", endpoint.service.host)]))
    rows = endpoint.rows()
    assert len(rows) == 4
    assert all(row["credential_hmac"] for row in rows)
    secrets = (API_KEY, BEARER, cookie)
    assert _files_with(endpoint.service, *(secret.encode() for secret in secrets)) == []
    assert not [secret for secret in secrets if secret in endpoint.service.output]


def _make_service_key(service: Service) -> str:
    with ControlDatabase(service.data_dir / "control.db") as control:
        organization_id = control.get_local_organization().id
        user_id = control.find_user(None)
        assert user_id
        with control.transaction() as db:
            return api_keys.create(db, organization_id, user_id, "Misplaced")[1]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/files"])
@pytest.mark.parametrize("name", ["x-api-key", "Authorization"])
def test_a_service_api_key_is_not_sent_to_the_upstream(
    live: Endpoint, path: str, name: str
) -> None:
    key = _make_service_key(live.service)
    value = f"Bearer {key}" if name == "Authorization" else key
    # As a client with a real credential beside it would.
    response = live.send(live.message(b"{}", [*REQUEST_HEADERS, (name, value)], path=path))
    assert_own_error(response, 401, "authentication_error")
    assert response.header("x-taximeter-error") == "service_key"
    assert live.upstream.requests == []
    assert live.rows() == []
    assert _files_with(live.service, key.encode()) == []


@pytest.mark.parametrize(
    ("query", "name", "value"),
    [
        ("?api_key={}", "x-app", "cli"),
        ("", "User-Agent", "tool/1 {}"),
        ("", "anthropic-beta", "{}"),
        ("", "Idempotency-Key", "x{}x"),
    ],
)
def test_a_service_api_key_anywhere_in_a_head_is_neither_forwarded_nor_stored(
    live: Endpoint, query: str, name: str, value: str
) -> None:
    key = _make_service_key(live.service)
    headers = [*REQUEST_HEADERS, (name, value.format(key))]
    path = "/v1/messages" + query.format(key)
    response = live.send(live.message(b"{}", headers, path=path))
    assert (response.status, response.header("x-taximeter-error")) == (401, "service_key")
    assert live.upstream.requests == []
    assert live.rows() == []
    assert _files_with(live.service, key.encode()) == []


def test_a_credential_that_only_looks_like_a_service_api_key_is_forwarded(live: Endpoint) -> None:
    stranger = f"sk_{'a' * 43}"
    headers = [*REQUEST_HEADERS, ("Authorization", f"Bearer {stranger}")]
    assert live.send(live.message(b"{}", headers)).status == 200
    assert live.upstream.requests[0].header("authorization") == f"Bearer {stranger}"


def test_calls_with_the_same_credential_can_be_grouped(live: Endpoint) -> None:
    def with_key(value: str) -> Headers:
        return [pair for pair in REQUEST_HEADERS if pair[0] != "x-api-key"] + [("x-api-key", value)]

    for credential in ("one", "two", "one"):
        live.send(live.message(b"{}", with_key(credential)))
    first, second, third = (row["credential_hmac"] for row in live.rows())
    assert first == third
    assert first != second


def test_the_upstream_never_sees_the_run_that_a_call_belongs_to(live: Endpoint) -> None:
    message = live.message(path="/run/build-42/v1/messages?beta=true")
    assert live.send(message).status == 200
    assert live.send(request("HEAD", live.target("/run/build-42"))).status == 200
    (seen,) = live.upstream.requests
    assert seen.target == "/v1/messages?beta=true"
    assert b"build-42" not in seen.head
    row = live.row()
    assert (row["run_id"], row["path_query"]) == ("build-42", "/v1/messages?beta=true")
