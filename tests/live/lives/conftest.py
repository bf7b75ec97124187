"""One service for all tests here, which live on it in turn: a start takes seconds of a processor.

Whatever dies of it, or whoever ends it, the next test finds it running on the same data. So one worker has
all of these files (tests/scheduling.py), and what a service prints at its first start is tested first.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.live.conftest import make_new_endpoint
from tests.live.lives.streams import Stream, open_all
from tests.live.service import Endpoint, Service
from tests.upstream import Upstream


@pytest.fixture(scope="package")
def lives_upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="package")
def mortal_service(
    lives_upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """The service, which prints its addresses as JSON at its first start. It waits for streams for longer
    than a start takes anywhere."""
    folder = tmp_path_factory.mktemp("lives")
    service = Service(folder, lives_upstream.url, DRAIN_SECONDS="120")
    service.options = ("--json",)
    with service:
        service.options = ()
        yield service


@pytest.fixture
def crashing(mortal_service: Service, lives_upstream: Upstream) -> Endpoint:
    """An endpoint for one test, which may kill what has sent half a request to the upstream."""
    lives_upstream.reset()
    mortal_service.ensure_started()
    return make_new_endpoint(mortal_service, lives_upstream)


@pytest.fixture
def ending(crashing: Endpoint) -> Iterator[Endpoint]:
    """An endpoint for one test, at whose end the upstream has seen whole requests only."""
    yield crashing
    assert crashing.upstream.faults == []


@pytest.fixture
def hasty(mortal_service: Service, request: pytest.FixtureRequest) -> Iterator[Endpoint]:
    """An endpoint like that, on the service as it is when it waits a second for streams."""
    with _setting(mortal_service, "TAXIMETER_DRAIN_SECONDS", "1"):
        yield request.getfixturevalue("ending")


@contextmanager
def _setting(service: Service, variable: str, value: str) -> Iterator[None]:
    """Let the service have a setting from its next start on, and let it go again after that."""
    before = service.environment
    service.environment = before | {variable: value}
    try:
        yield
    finally:
        service.environment = before


@pytest.fixture
def open_streams() -> Iterator[Callable[[Endpoint, int], list[Stream]]]:
    """Opens so many streams at once and reads their first halves: `open_streams(endpoint, 50)`."""
    with ExitStack() as stack:
        yield lambda endpoint, count: open_all(stack, endpoint, count)
