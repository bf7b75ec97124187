"""Upstreams to which no connection can be made: refused, or not trusted."""

from collections.abc import Iterator

import pytest

from tests.live.service import Endpoint, body_bytes
from tests.live.wire.checks import assert_own_error


@pytest.fixture
def closed_port(customised: Endpoint) -> Iterator[None]:
    """Lets nobody listen at the port of the upstream for the time of a test."""
    customised.upstream.refuse()
    yield
    customised.upstream.accept()


@pytest.mark.usefixtures("stranger")
def test_an_upstream_with_an_unknown_certificate_is_a_502(customised: Endpoint) -> None:
    assert_own_error(customised.send(), 502, "api_error")
    assert customised.upstream.requests == []
    row = customised.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)


@pytest.mark.usefixtures("closed_port")
def test_a_refusing_upstream_is_a_502_and_an_entry(customised: Endpoint) -> None:
    response = customised.send(customised.message(b'{"x":1}'))
    assert_own_error(response, 502, "api_error")
    row = customised.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)
    assert body_bytes(row["request_body"]) == b'{"x":1}'
    customised.service.wait_healthy()
