"""Endpoints with an upstream of their own."""

from pathlib import Path

from tests.live.service import REQUEST_HEADERS, Endpoint
from tests.live.wire.checks import assert_own_error, error_of
from tests.rawclient import request
from tests.upstream import Upstream, answer, message_json

PRICES = """
[[models]]
match = "claude-*"
upstream = "plain"
starts = 2020-01-01
input = 100
output = 1000
cache_read = 1
cache_write_5m = 1
cache_write_1h = 1
"""


def test_calls_on_one_connection_go_where_their_endpoints_say(
    customised: Endpoint, shared_upstream: Upstream, tmp_path: Path
) -> None:
    service = customised.service
    service.create_endpoint("elsewhere", upstream="plain")
    shared_upstream.reset()
    for upstream in (customised.upstream, shared_upstream):
        upstream.otherwise = answer(200, message_json())
    with service.connect() as client:
        for slug in (customised.slug, "elsewhere", customised.slug, "elsewhere"):
            sent = request("POST", f"/proxy/{slug}/v1/messages", REQUEST_HEADERS, b"{}")
            assert client.exchange(sent).status == 200
    assert [each.target for each in customised.upstream.requests] == [
        "/some/prefix/v1/messages"
    ] * 2
    plain = shared_upstream.requests
    assert [each.target for each in plain] == ["/of/endpoints/v1/messages"] * 2
    assert [each.header("host") for each in plain] == [f"127.0.0.1:{shared_upstream.port}"] * 2
    assert [row["upstream"] for row in customised.rows()] == [None, None]
    rows = service.settled_rows("elsewhere")
    assert [(row["upstream"], row["cost_cents"]) for row in rows] == [("plain", None)] * 2
    assert all(row["cost_cents"] for row in customised.rows())


def test_an_upstream_that_is_named_no_more_gets_nothing_and_no_other_does(
    customised: Endpoint, shared_upstream: Upstream
) -> None:
    service = customised.service
    service.create_endpoint("gone", upstream="old")
    shared_upstream.reset()
    for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/models"):
        response = service.send(request("POST", f"/proxy/gone{path}", REQUEST_HEADERS, b"{}"))
        assert_own_error(response, 503, "api_error")
        assert response.header("x-taximeter-error") == "unknown_upstream"
        assert "'old'" in error_of(response)["message"]
    assert customised.upstream.requests == []
    assert shared_upstream.requests == []
    assert service.settled_rows("gone") == []
