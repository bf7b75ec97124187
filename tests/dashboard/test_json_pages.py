"""Pages that are JSON: each is in the OpenAPI document, and is as it says."""

import time
from decimal import Decimal

import pytest
from starlette.routing import Route

from dashboard.json_pages import PAGES
from dashboard.sessions.pages import JSON
from manage.server import make_app
from metering.rate_limits import RateLimits
from runtime import clock
from store.json_models import Error
from store.traces.database import TraceDatabase
from store.traces.search.indexer import Indexer
from tests.conversations.sessions import conversation, request
from tests.recorder.conversations import Recording

WITHIN_A_HANDLER = {f"/sessions/{{session_id}}{JSON}"}  # as its id may end with .json too


def test_every_page_that_is_json_is_in_the_document(settings, control, queries):
    routes = {
        route.path.replace(":path}", "}")
        for route in make_app(settings).routes
        if isinstance(route, Route) and route.path.endswith(JSON)
    }
    assert routes | WITHIN_A_HANDLER == {page.path for page in PAGES}


@pytest.fixture
def recorded(settings, ann):
    """A session whose cache broke, calls that failed, and one without a price."""
    recording = Recording(settings.data_dir, ann.organization_id)
    log = "It sails. " * 3_000
    for turns, nation in ((1, "British"), (2, "British"), (3, "American")):
        recording.send(request(*conversation(turns, opening=f"A {nation} ship. {log}")))
    recording.close()
    at = clock.format_ms(clock.now())
    ann.record(created_at=at, session_id="other", cost_cents=Decimal(3))
    ann.record(created_at=at, session_id="other", cost_cents=None, cost_items=())
    ann.record(created_at=at, session_id="other", model=None, outcome="upstream_timeout")
    limits = RateLimits(unified_5h_utilization=0.5, unified_5h_reset_at=at[:19] + "Z")
    ann.record(created_at=at, session_id="other", rate_limits=limits)
    with TraceDatabase(ann.path) as traces:
        assert not Indexer(traces.connection, time.monotonic).run(60)


QUERIES = {
    "/overview.json": (
        "",
        "span=2026-11-01..2026-11-30&by=session",
        "by=agent&model=claude-sonnet-4-5&span=today",
        "by=endpoint&credential=(none)&span=90d",
    ),
    "/sessions.json": ("", "limit=1", "order=cost"),
    "/sessions/{session_id}.json": ("",),
    "/sessions/{session_id}/savings.json": ("",),
    "/savings.json": ("", "span=90d"),
    "/savings/models.json": ("", "period=30d&endpoint=default", "session=s1"),
    "/limits.json": ("",),
    "/tools.json": ("",),
    "/search.json": ("q=ship", "q=ship&limit=1&role=user", "q=call-1", ""),
}


def test_a_page_is_as_the_document_says(ann, stranger, recorded, subtests):
    for page in PAGES:
        with subtests.test(page.name):
            check_page(ann, stranger, page)


def check_page(ann, stranger, page):
    address = page.path.format(session_id="s1")
    for query in QUERIES[page.path]:
        for response in (
            ann.get(f"{address}?{query}"),
            stranger.get(f"{address}?{query}", headers=ann.bearer),
        ):
            assert response.status_code == 200
            body = response.json()
            said = page.response.model_validate_json(response.content, strict=True)
            assert said.model_dump(mode="json", by_alias=True) == body, query
    for headers in ({}, {"authorization": "Bearer sk_no"}):
        refused = stranger.get(address, headers=headers)
        assert refused.status_code == 401
        Error.model_validate_json(refused.content)


def test_before_the_first_call_a_page_is_as_the_document_says_too(ann, subtests):
    for page in PAGES:
        with subtests.test(page.name):
            check_page_without_calls(ann, page)


def check_page_without_calls(ann, page):
    response = ann.get(page.path.format(session_id="s1"))
    if response.status_code != 200:
        assert (response.status_code, "{session_id}" in page.path) == (404, True)
        Error.model_validate_json(response.content)
        return
    said = page.response.model_validate_json(response.content, strict=True)
    assert said.model_dump(mode="json", by_alias=True) == response.json()


def test_parameters_are_those_that_pages_take(ann, recorded):
    """A parameter that a page does not know changes nothing; one with a bad value is refused."""
    bad = {
        "order": "x",
        "limit": "0",
        "cursor": "x",
        "span": "x",
        "by": "x",
        "since": "x",
        "role": "x",
    }
    for page in PAGES:
        address = page.path.format(session_id="s1")
        for name in page.query.model_fields.keys() & bad.keys():
            response = ann.get(f"{address}?{name}={bad[name]}")
            assert response.status_code == 400, (address, name)
