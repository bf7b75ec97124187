"""Texts that take hours to colour or to compare: recorded by whoever knows a slug, then looked at."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from bench.filling import fill
from bench.visitor import Visitor
from store.control.database import ControlDatabase
from tests.dashboard.slow_texts import SLOW_TEXTS
from tests.hostile.neighbours import Waits
from tests.live.service import Endpoint, Service
from tests.rawclient import request as make_request
from tests.upstream import PATIENCE_S

OTHERS = ("/", "/calls/1", "/traces/usage", "/healthz")
# The process that makes the page is killed after 1.5 s, and then makes it as it is.
MOST_S = 4 * PATIENCE_S


@pytest.fixture(scope="module")
def other(service: Service) -> Iterator[Visitor]:
    """Somebody of another organisation, who looks at pages."""
    service.wait_healthy()
    with ControlDatabase(service.data_dir / "control.db") as control:
        visitor = Visitor(control, service.data_dir, "other", "198.51.100.7")
    visitor.path.parent.mkdir(parents=True)
    fill(visitor.path, 3)
    visitor.connect(service.address[1])
    yield visitor
    visitor.close()


@pytest.mark.parametrize("name", SLOW_TEXTS)
def test_a_recorded_text_takes_hours_to_colour(
    name: str, endpoint: Endpoint, other: Visitor, request: pytest.FixtureRequest
) -> None:
    service = endpoint.service
    assert endpoint.send(endpoint.message(body=SLOW_TEXTS[name])).status == 200
    (row,) = service.wait_for_rows(1, endpoint.slug)
    key = [("host", "localhost"), ("authorization", f"Bearer {service.create_key('reader')}")]
    pages: list[tuple[int, bytes]] = []

    def look() -> None:
        with service.connect(timeout_s=MOST_S) as client:
            path = f"/traces/usage/{row['id']}/request/read"
            found = client.exchange(make_request("GET", path, key))
            pages.append((found.status, found.body))

    looking = threading.Thread(target=look)
    looking.start()
    times_ms = list(visit(other, looking.is_alive))
    looking.join()
    note_pages(request, times_ms)
    ((status, page),) = pages
    assert status == 200
    assert b"Shown without colours and formatting, which took too long." in page
    assert times_ms != [], "others saw pages meanwhile"


def visit(visitor: Visitor, goes_on: Callable[[], bool]) -> Iterator[float]:
    """Yield the times of pages, in ms, which somebody sees before something is over."""
    for path in itertools.cycle(OTHERS):
        time_ms = visitor.time_page(path)
        if not goes_on():
            return
        yield time_ms


def note_pages(request: pytest.FixtureRequest, times_ms: list[float]) -> None:
    """Note how long others waited, where that is reported."""
    with suppress(pytest.FixtureLookupError):
        waits: Waits = request.getfixturevalue("neighbours").waits
        waits.pages_ms += times_ms
