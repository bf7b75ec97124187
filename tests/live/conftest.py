"""Every live test runs the real program between the raw client and the scripted upstream.

Most tests share one running service and have a proxy endpoint of their own on it. A start takes seconds of
a processor: those that kill something are on one service, too (tests/live/lives), and so are several
organisations (tests/live/organizations) and most other settings (`customised_service`).
"""

import itertools
import socket
import ssl
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
import trustme

from manage.cli import run_commands
from runtime.settings import Streaming
from tests.live.office import Office, open_office
from tests.live.service import Endpoint, Service
from tests.mailbox import PASSWORD, USER, Mailbox
from tests.upstream import PATIENCE_S, Upstream

PAGE = "https://app.example.org"
"""An origin whose pages may call the customised service."""
SECRET_OF_PROVIDER = "the-secret-at-a-provider"

type EndpointFactory = Callable[..., Endpoint]

_numbers = itertools.count(1)


def make_new_endpoint(
    service: Service,
    upstream: Upstream,
    streaming: Streaming | None = None,
    *,
    metadata_only: bool = False,
) -> Endpoint:
    """Make an endpoint with a slug that no other test has."""
    slug = f"test-{next(_numbers)}"
    service.create_endpoint(slug, streaming, metadata_only=metadata_only)
    return Endpoint(service, upstream, slug)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/live/"):
            item.add_marker(pytest.mark.live)


@pytest.fixture
def patient_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `taximeter run` in this process wait for a slow service."""
    monkeypatch.setattr(run_commands, "RECORDING_S", PATIENCE_S)
    monkeypatch.setattr(run_commands, "PROBE_S", PATIENCE_S)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """An upstream of its own for one test; what should never happen at it fails the test."""
    with Upstream() as server:
        yield server
    assert server.faults == []


@pytest.fixture(scope="session")
def shared_upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture(scope="session")
def shared_service(
    shared_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service, with every setting left alone, for the tests that do not harm it."""
    with Service(tmp_path_factory.mktemp("shared"), shared_upstream.url) as service:
        yield service


@pytest.fixture
def make_endpoint(shared_service: Service, shared_upstream: Upstream) -> Iterator[EndpointFactory]:
    """Makes endpoints on the shared service: `make_endpoint("buffered", metadata_only=True)`."""
    shared_upstream.reset()

    def make(streaming: Streaming | None = None, *, metadata_only: bool = False) -> Endpoint:
        return make_new_endpoint(
            shared_service, shared_upstream, streaming, metadata_only=metadata_only
        )

    yield make
    assert shared_upstream.faults == []


@pytest.fixture
def live(make_endpoint: EndpointFactory) -> Endpoint:
    """An endpoint whose answers go on chunk by chunk."""
    return make_endpoint("live")


@pytest.fixture
def buffered(make_endpoint: EndpointFactory) -> Endpoint:
    """An endpoint whose answers are returned once they are whole."""
    return make_endpoint("buffered")


@pytest.fixture(params=["live", "buffered"])
def endpoint(request: pytest.FixtureRequest, make_endpoint: EndpointFactory) -> Endpoint:
    """Both kinds, for what must hold whichever it is."""
    return make_endpoint(request.param)


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
def mailbox() -> Iterator[Mailbox]:
    """The mail server of the customised service."""
    with Mailbox.with_starttls(trustme.CA()) as mailbox:
        yield mailbox


@pytest.fixture(scope="session")
def customised_service(
    upstream_certificate: tuple[ssl.SSLContext, trustme.LeafCert, str],
    shared_upstream: Upstream,
    mailbox: Mailbox,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Service, Upstream]]:
    """A service beside the shared one, which has the settings that disturb no other test: a path prefix
    at its upstream, whose certificate is of an authority that its operator names, header prefixes, an
    origin whose pages may call it, another upstream for endpoints, responses that are returned once they are
    whole, eight seconds of patience, an upstream that never says anything, and secrets for signing in."""
    context, _, authority_path = upstream_certificate
    with (
        Upstream(tls=context) as upstream,
        socket.create_server(("127.0.0.1", 0)) as silent,
        Service(
            tmp_path_factory.mktemp("customised"),
            f"{upstream.url}/some/prefix",
            SSL_CERT_FILE=authority_path,
            UPSTREAMS=f"plain={shared_upstream.url}/of/endpoints,"
            f"silent=https://127.0.0.1:{silent.getsockname()[1]}",
            FORWARD_HEADERS="x-team-,x-trace-id",
            ALLOWED_ORIGINS=PAGE,
            STREAMING="buffered",
            UPSTREAM_TIMEOUT="connect=8,first_byte=8,idle=8",
            SMTP_URL=f"smtp://{USER}:{quote(PASSWORD)}@127.0.0.1:{mailbox.port}",
            MAIL_FROM="meter@example.org",
            GITHUB_CLIENT_ID="id",
            GITHUB_CLIENT_SECRET=SECRET_OF_PROVIDER,
        ) as service,
    ):
        yield service, upstream


@pytest.fixture
def customised(customised_service: tuple[Service, Upstream]) -> Endpoint:
    """An endpoint on it that one test has for itself, whose answers go on chunk by chunk."""
    service, upstream = customised_service
    upstream.reset()
    return make_new_endpoint(service, upstream, "live")


@pytest.fixture(scope="session")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """The office of the tests of the forward proxy, and of those that compare it with other ways."""
    with open_office(tmp_path_factory.mktemp("office")) as office:
        yield office


@pytest.fixture
def stranger(upstream_certificate: tuple[ssl.SSLContext, trustme.LeafCert, str]) -> Iterator[None]:
    """Lets the upstream have a certificate of another authority for the time of a test."""
    context, certificate, _ = upstream_certificate
    trustme.CA().issue_cert("localhost").configure_cert(context)
    yield
    certificate.configure_cert(context)
