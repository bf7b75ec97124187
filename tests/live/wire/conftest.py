"""A service with settings and with an upstream that can be unreachable, beside the shared one."""

import ssl
from collections.abc import Iterator

import pytest
import trustme

from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service
from tests.live.wire.checks import PAGE
from tests.upstream import Upstream


@pytest.fixture(scope="session")
def upstream_certificate() -> Iterator[tuple[ssl.SSLContext, trustme.LeafCert, str]]:
    """The context of an upstream, its certificate, and the file of the authority that issued it."""
    authority = trustme.CA()
    context, certificate = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        authority.issue_cert("localhost"),
    )
    certificate.configure_cert(context)
    with authority.cert_pem.tempfile() as authority_path:
        yield context, certificate, authority_path


@pytest.fixture(scope="session")
def customised_service(
    upstream_certificate: tuple[ssl.SSLContext, trustme.LeafCert, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, Upstream]]:
    """A service with a path prefix at its upstream, whose certificate is of an authority that its
    operator names, with header prefixes, an origin whose pages may call it, and little patience for
    connections."""
    context, _, authority_path = upstream_certificate
    with (
        Upstream(tls=context) as upstream,
        Service(
            tmp_path_factory.mktemp("customised"),
            f"{upstream.url}/some/prefix",
            SSL_CERT_FILE=authority_path,
            FORWARD_HEADERS="x-team-,x-trace-id",
            ALLOWED_ORIGINS=PAGE,
            UPSTREAM_TIMEOUT="connect=3",
        ) as service,
    ):
        yield service, upstream


@pytest.fixture
def customised(customised_service: tuple[Service, Upstream]) -> Endpoint:
    """An endpoint on it that one test has for itself."""
    service, upstream = customised_service
    upstream.reset()
    return make_new_endpoint(service, upstream)


@pytest.fixture
def stranger(upstream_certificate: tuple[ssl.SSLContext, trustme.LeafCert, str]) -> Iterator[None]:
    """Lets the upstream have a certificate of another authority for the time of a test."""
    context, certificate, _ = upstream_certificate
    trustme.CA().issue_cert("localhost").configure_cert(context)
    yield
    certificate.configure_cert(context)
