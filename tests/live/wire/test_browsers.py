"""Requests of browsers, which are refused unless their origin is listed."""

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import assert_own_error
from tests.rawclient import request

PAGE = "https://app.example.org"


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
