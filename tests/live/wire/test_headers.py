"""The forwarding of headers of requests and responses."""

from tests.live.service import API_KEY, REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import BEARER
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


def test_headers_of_one_side_alone_do_not_pass(live: Endpoint) -> None:
    """All names that stay are in tests/addon/test_headers.py."""
    asked = [("Cookie", "session=1"), ("X-Forwarded-For", "10.0.0.1"), ("x-foo", "1")]
    given = [("Alt-Svc", 'h3=":443"'), ("Keep-Alive", "timeout=5"), ("X-Taximeter-Error", "ours")]
    live.upstream.enqueue(answer(200, b"{}", given))
    response = live.send(live.message(b"{}", [*REQUEST_HEADERS, *asked]))
    [seen] = live.upstream.requests
    assert [seen.header_values(name) for name, _ in asked] == [[], [], []]
    assert [response.head.header_values(name) for name, _ in given] == [[], [], []]
