"""A service whose operator has set what upstream, headers, origins and certificates it knows."""

from urllib.parse import urlsplit

import pytest

from tests.live.conftest import PAGE
from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import EVENTS, HTML, JSON, STREAM
from tests.rawclient import request
from tests.upstream import CLOSE, Script, answer, error_json, message_json, sse


def test_an_authority_named_in_ssl_cert_file_is_trusted(customised: Endpoint) -> None:
    assert urlsplit(customised.upstream.url).scheme == "https"
    customised.upstream.enqueue(sse(EVENTS))
    response = customised.send()
    assert (response.status, response.body) == (200, STREAM)
    assert customised.row()["outcome"] == "complete"


def test_a_path_prefix_of_the_upstream_is_kept_in_front(customised: Endpoint) -> None:
    customised.send(customised.message(path="/v1/messages?beta=true"))
    customised.send(customised.message(path="//v1/messages/count_tokens"))
    assert [seen.target for seen in customised.upstream.requests] == [
        "/some/prefix/v1/messages?beta=true",
        "/some/prefix/v1/messages/count_tokens",
    ]
    assert [row["outcome"] for row in customised.rows()] == ["complete"]


def test_header_prefixes_of_the_operator_are_forwarded_too(customised: Endpoint) -> None:
    extra = [("X-Team-Name", "a"), ("x-trace-id", "b"), ("x-foo", "c")]
    customised.send(customised.message(b"{}", [*REQUEST_HEADERS, *extra]))
    [seen] = customised.upstream.requests
    assert [pair for pair in seen.headers if pair in extra] == extra[:2]


def test_a_preflight_of_a_listed_origin_is_answered_here(customised: Endpoint) -> None:
    asked = [
        ("Origin", PAGE),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "anthropic-version,content-type,x-api-key"),
        ("Access-Control-Request-Private-Network", "true"),
    ]
    for slug in (customised.slug, "nobody"):
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
