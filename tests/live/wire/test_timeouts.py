"""Upstreams that take too long. All calls are made at the same time, since each takes as long as it may."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service, body_bytes
from tests.live.wire.checks import EVENTS, assert_own_error, is_cut
from tests.rawclient import Response
from tests.upstream import PATIENCE_S, STALL, Script, SeenRequest, Upstream, cut_sse


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Endpoints of both streaming modes, an endpoint without a handshake, and what their clients got."""

    never: Sequence[Endpoint]
    falls_silent: Sequence[Endpoint]
    no_handshake: Endpoint
    responses: Sequence[Response]
    are_cut: Sequence[bool]
    response_without_handshake: Response
    seen: Sequence[SeenRequest]


def respond(seen: SeenRequest) -> Script:
    return cut_sse(EVENTS[:3], STALL) if "falls-silent" in seen.target else Script((STALL,))


@pytest.fixture(scope="module")
def calls(customised_service: tuple[Service, Upstream]) -> Calls:
    service, upstream = customised_service
    upstream.reset()
    upstream.choose = respond
    never, falls_silent = (
        [make_new_endpoint(service, upstream, mode) for mode in ("live", "buffered")]
        for _ in range(2)
    )
    no_handshake = replace(never[0], slug="no-handshake")
    service.create_endpoint(no_handshake.slug, upstream="silent")
    with ThreadPoolExecutor(5) as pool:
        last = pool.submit(no_handshake.send)
        responses = pool.map(Endpoint.send, never)
        are_cut = pool.map(
            lambda each: is_cut(each, each.message(path="/v1/messages?falls-silent")), falls_silent
        )
        made = Calls(
            never=never,
            falls_silent=falls_silent,
            no_handshake=no_handshake,
            responses=list(responses),
            are_cut=list(are_cut),
            response_without_handshake=last.result(),
            seen=list(upstream.requests),
        )
    upstream.reset()
    return made


def test_an_upstream_that_never_answers_is_a_504_and_an_entry(calls: Calls) -> None:
    for endpoint, response in zip(calls.never, calls.responses, strict=True):
        assert_own_error(response, 504, "api_error")
        row = endpoint.row()
        assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)


def test_an_answer_that_falls_silent_is_cut_and_an_entry(calls: Calls) -> None:
    assert calls.are_cut == [True, True]
    for endpoint in calls.falls_silent:
        row = endpoint.row()
        assert (row["outcome"], row["status_code"]) == ("upstream_timeout", 200)
        assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])


def test_a_tls_handshake_that_never_ends_is_a_504_and_an_entry(calls: Calls) -> None:
    assert_own_error(calls.response_without_handshake, 504, "api_error")
    row = calls.no_handshake.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)


def test_the_connections_of_upstreams_that_take_too_long_are_closed(calls: Calls) -> None:
    assert [each.abandoned.wait(PATIENCE_S) for each in calls.seen] == [True] * 4
