"""Every page reads what earlier releases recorded."""

import pytest

from store.traces.database import TraceDatabase
from store.traces.paths import trace_path
from tests.dashboard.every_page import list_pages
from tests.dashboard.people import Person
from tests.store.upgrades.calls import CALLS, SESSION
from tests.store.upgrades.dumps import find_dumps, load

LOOKED_AT = (3, 7, 8)  # one with a cache break, one whose bodies are no text, one that was cut


@pytest.mark.slow
@pytest.mark.parametrize("dump", find_dumps("traces"), ids=lambda path: path.stem)
def test_every_page_reads_the_calls_of_an_earlier_release(dump, app, control, settings):
    ann = Person(app, control, settings.data_dir, "ann@example.org")
    path = trace_path(settings.data_dir, ann.organization_id)
    load(dump, path)
    TraceDatabase(path).close()
    pages = {}
    for address in list_pages(LOOKED_AT, SESSION):
        is_page_of_call = address.startswith("/calls/")  # programs are led to its row
        response = ann.get(address) if is_page_of_call else ann.get(address, **ann.bearer)
        assert response.status_code == 200, (dump.name, address, response.text[:500])
        pages[address] = response
    for number in LOOKED_AT:
        call = CALLS[number - 1]
        assert pages[f"/traces/usage/{number}/request"].content == call.request
        assert pages[f"/traces/usage/{number}/response"].content == call.response
    assert "pendulum" in pages["/search?q=the"].text
    assert pages[f"/sessions/{SESSION}.json"].json()["calls"] == 3
