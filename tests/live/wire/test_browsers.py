"""Requests of browsers, which are refused unless their origin is listed."""

import pytest

from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import assert_own_error
from tests.rawclient import request


@pytest.mark.parametrize(
    ("sign", "code"),
    [
        (("Origin", "https://evil.test"), "origin_refused"),
        (("Sec-Fetch-Mode", "navigate"), "navigation_refused"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_a_browsers_request_is_not_forwarded(
    live: Endpoint, path: str, sign: tuple[str, str], code: str
) -> None:
    response = live.send(live.message(b"{}", [*REQUEST_HEADERS, sign], path=path))
    assert_own_error(response, 403, "permission_error")
    assert response.header("x-taximeter-error") == code
    assert response.header("access-control-allow-origin") is None
    assert live.upstream.requests == []
    assert live.rows() == []


def test_a_preflight_of_an_origin_that_is_not_listed_is_refused(live: Endpoint) -> None:
    asked = [("Origin", "https://app.example.org"), ("Access-Control-Request-Method", "POST")]
    response = live.send(request("OPTIONS", live.target(), [*REQUEST_HEADERS, *asked]))
    assert_own_error(response, 403, "permission_error")
    assert response.header("access-control-allow-origin") is None
