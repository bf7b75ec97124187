"""Upstreams to which no connection can be made: refused, silent, or not trusted."""

import socket
import ssl
from collections.abc import Iterator

import pytest
import trustme

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service, body_bytes
from tests.live.wire.checks import assert_own_error
from tests.upstream import Upstream


@pytest.fixture(scope="module")
def distrustful(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, Upstream]]:
    """A service that trusts the usual authorities, and an upstream whose certificate is of another."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    with (
        Upstream(tls=context) as upstream,
        Service(
            tmp_path_factory.mktemp("unreachable"), upstream.url, UPSTREAM_TIMEOUT="connect=2"
        ) as service,
    ):
        yield service, upstream


@pytest.fixture
def unreachable(distrustful: tuple[Service, Upstream]) -> Endpoint:
    """An endpoint on it that one test has for itself."""
    service, upstream = distrustful
    upstream.reset()
    return make_new_endpoint(service, upstream)


@pytest.fixture
def closed_port(unreachable: Endpoint) -> Iterator[int]:
    """The upstream's port, at which nobody listens for the time of a test."""
    unreachable.upstream.refuse()
    yield unreachable.upstream.port
    unreachable.upstream.accept()


def test_an_upstream_with_an_unknown_certificate_is_a_502(unreachable: Endpoint) -> None:
    assert_own_error(unreachable.send(), 502, "api_error")
    assert unreachable.upstream.requests == []
    row = unreachable.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)


@pytest.mark.usefixtures("closed_port")
def test_a_refusing_upstream_is_a_502_and_an_entry(unreachable: Endpoint) -> None:
    response = unreachable.send(unreachable.message(b'{"x":1}'))
    assert_own_error(response, 502, "api_error")
    row = unreachable.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)
    assert body_bytes(row["request_body"]) == b'{"x":1}'
    assert unreachable.service.health() == 200


def test_a_tls_handshake_that_never_ends_is_a_504_and_an_entry(
    unreachable: Endpoint, closed_port: int
) -> None:
    with socket.create_server(("127.0.0.1", closed_port)):
        assert_own_error(unreachable.send(), 504, "api_error")
        row = unreachable.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_timeout", None)
