"""Every live test runs the real program between the raw client and the scripted upstream.

Most tests share one running service and have a proxy endpoint of their own on it; those that kill
something, or need other settings, start one with `service_factory`.
"""

import itertools
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runtime.settings import Streaming
from tests.live.service import Endpoint, Service
from tests.upstream import Upstream

type ServiceFactory = Callable[..., Service]
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
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.live)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """An upstream of its own for one test; what should never happen at it fails the test."""
    with Upstream() as server:
        yield server
    assert server.faults == []


@pytest.fixture
def service_factory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceFactory]:
    """Starts services that end with the test: `service_factory(upstream.url, STREAMING="live")`."""
    with ExitStack() as stack:

        def start(upstream_url: str, **settings: str) -> Service:
            folder = tmp_path_factory.mktemp("service")
            return stack.enter_context(Service(folder, upstream_url, **settings))

        yield start


@pytest.fixture(scope="session")
def shared_upstream() -> Iterator[Upstream]:
    with Upstream() as server:
        yield server


@pytest.fixture(scope="session")
def shared_service(
    shared_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One service, with every setting left alone, for the tests that do not harm it. It is started with
    a low limit of descriptors, which it may raise."""
    service = Service(tmp_path_factory.mktemp("shared"), shared_upstream.url)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1000), hard))
        try:
            stack.enter_context(service)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
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
