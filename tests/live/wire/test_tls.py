"""Upstreams over TLS, and whose certificates are trusted."""

import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import trustme

from tests.live.conftest import ServiceFactory
from tests.live.service import Endpoint
from tests.live.wire.checks import EVENTS, STREAM, assert_own_error
from tests.upstream import Upstream, sse


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls_upstream(authority: trustme.CA) -> Iterator[Upstream]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with Upstream(tls=context) as upstream:
        assert urlsplit(upstream.url).hostname == "localhost"
        yield upstream


def test_an_upstream_with_an_unknown_certificate_is_a_502(
    tls_upstream: Upstream, service_factory: ServiceFactory
) -> None:
    endpoint = Endpoint(service_factory(tls_upstream.url), tls_upstream, "default")
    assert_own_error(endpoint.send(), 502, "api_error")
    assert tls_upstream.requests == []
    row = endpoint.row()
    assert (row["outcome"], row["status_code"]) == ("upstream_unreachable", None)


def test_an_authority_named_in_ssl_cert_file_is_trusted(
    tls_upstream: Upstream, service_factory: ServiceFactory, authority: trustme.CA
) -> None:
    with authority.cert_pem.tempfile() as path:
        service = service_factory(tls_upstream.url, SSL_CERT_FILE=path)
        endpoint = Endpoint(service, tls_upstream, "default")
        tls_upstream.enqueue(sse(EVENTS))
        response = endpoint.send()
    assert (response.status, response.body) == (200, STREAM)
    assert endpoint.row()["outcome"] == "complete"
