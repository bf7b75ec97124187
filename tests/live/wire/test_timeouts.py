"""Upstreams that take too long."""

from concurrent.futures import ThreadPoolExecutor

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service, body_bytes
from tests.live.wire.checks import EVENTS, assert_own_error, is_cut
from tests.upstream import PATIENCE_S, STALL, Script, Upstream, cut_sse


def make_both_kinds(
    customised_service: tuple[Service, Upstream], script: Script
) -> tuple[Endpoint, Endpoint]:
    """Return an endpoint of each streaming mode, whose upstream always answers with this."""
    service, upstream = customised_service
    upstream.reset()
    upstream.otherwise = script
    live, buffered = (make_new_endpoint(service, upstream, mode) for mode in ("live", "buffered"))
    return live, buffered


def test_an_upstream_that_never_answers_is_a_504_and_an_entry(
    customised_service: tuple[Service, Upstream],
) -> None:
    endpoints = make_both_kinds(customised_service, Script((STALL,)))
    with ThreadPoolExecutor() as pool:
        responses = list(pool.map(Endpoint.send, endpoints))
    for endpoint, response in zip(endpoints, responses, strict=True):
        assert_own_error(response, 504, "api_error")
        row = endpoint.row()
        assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)
    assert [seen.abandoned.wait(PATIENCE_S) for seen in endpoints[0].upstream.requests] == [
        True,
        True,
    ]


def test_an_answer_that_falls_silent_is_cut_and_an_entry(
    customised_service: tuple[Service, Upstream],
) -> None:
    endpoints = make_both_kinds(customised_service, cut_sse(EVENTS[:3], STALL))
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(is_cut, endpoints)) == [True, True]
    for endpoint in endpoints:
        row = endpoint.row()
        assert (row["outcome"], row["status_code"]) == ("upstream_timeout", 200)
        assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])
    assert [seen.abandoned.wait(PATIENCE_S) for seen in endpoints[0].upstream.requests] == [
        True,
        True,
    ]
