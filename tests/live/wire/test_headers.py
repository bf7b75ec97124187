"""The forwarding of headers of requests and responses."""

import pytest

from tests.live.service import API_KEY, REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import BEARER, JSON
from tests.upstream import answer, message_json


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
