"""One service for all attacks, with little patience and little memory for requests."""

import resource
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.hostile.neighbours import AttackedUpstream
from tests.live.conftest import make_new_endpoint
from tests.live.service import Endpoint, Service
from tests.upstream import Upstream

PAGE = "https://app.example"
FEW_DESCRIPTORS = 1000
IDLE_S = 2.0
"""The patience with clients: those of tests that wait it out share it, and others must never need it."""
SETTINGS = {
    "REQUEST_IDLE_SECONDS": f"{IDLE_S:g}",
    "REQUEST_MEMORY": "64MB",
    "ALLOWED_ORIGINS": PAGE,
    "TRUSTED_PROXIES": "127.0.0.1",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_here = item.nodeid.startswith("tests/hostile/")
        if is_here and "service" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.live)


@contextmanager
def few_descriptors() -> Iterator[None]:
    """Let what is started meanwhile have few descriptors, and raise the limit itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, FEW_DESCRIPTORS), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="session")
def attacked_upstream() -> Iterator[Upstream]:
    with AttackedUpstream() as upstream:
        yield upstream


@pytest.fixture(scope="session")
def service(
    attacked_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service that is attacked."""
    folder = tmp_path_factory.mktemp("attacked")
    with ExitStack() as stack:
        service = Service(folder, attacked_upstream.url, **SETTINGS)
        with few_descriptors():
            stack.enter_context(service)
        yield service


@pytest.fixture
def upstream(attacked_upstream: Upstream) -> Iterator[Upstream]:
    """The upstream behind it; what should never happen at it fails the test."""
    attacked_upstream.reset()
    yield attacked_upstream
    assert attacked_upstream.faults == []


@pytest.fixture
def endpoint(service: Service, upstream: Upstream) -> Endpoint:
    """A proxy endpoint that one test has for itself."""
    return make_new_endpoint(service, upstream)


def proxy_memory(service: Service) -> int:
    rss: int = psutil.Process(service.pids()["proxy"]).memory_info().rss
    return rss


def endpoints_of_both_modes(service: Service, upstream: Upstream) -> list[Endpoint]:
    """Make an endpoint that passes chunks on, and one that holds responses."""
    return [
        make_new_endpoint(service, upstream, "live"),
        make_new_endpoint(service, upstream, "buffered"),
    ]


def count_unread(service: Service) -> int:
    """Return how many bytes have come to the service that its proxy has not read, on Linux."""
    port = f":{service.address[1]:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ours = [fields for fields in lines if fields[1].endswith(port) and fields[3] != "0A"]
    return sum(int(fields[4].partition(":")[2], 16) for fields in ours)
