"""Upstreams that take too long."""

from collections.abc import Iterator

import pytest

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service, body_bytes
from tests.live.wire.checks import EVENTS, assert_own_error, is_cut
from tests.upstream import STALL, Script, Upstream, cut_sse

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
    return make_new_endpoint(service, upstream, request.param)


def test_an_upstream_that_never_answers_is_a_504_and_an_entry(impatient_endpoint: Endpoint) -> None:
    impatient_endpoint.upstream.enqueue(Script((STALL,)))
    response = impatient_endpoint.send()
    assert_own_error(response, 504, "api_error")
    row = impatient_endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)
    assert impatient_endpoint.upstream.requests[0].abandoned.wait(5)


def test_an_answer_that_falls_silent_is_cut_and_an_entry(impatient_endpoint: Endpoint) -> None:
    impatient_endpoint.upstream.enqueue(cut_sse(EVENTS[:3], STALL))
    assert is_cut(impatient_endpoint)
    row = impatient_endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", 200)
    assert body_bytes(row["response_body"]) == b"".join(EVENTS[:3])
    assert impatient_endpoint.upstream.requests[0].abandoned.wait(5)
