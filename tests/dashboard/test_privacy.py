"""Every page about calls: for those who are signed in, and about calls of their organisation alone."""

import json
import time
from urllib.parse import quote

import pytest

from runtime import clock
from store.traces.database import TraceDatabase
from store.traces.search.indexer import Indexer
from tests.dashboard.every_page import list_pages
from tests.dashboard.savings.test_pages import row, store as store_findings
from tests.dashboard.tools.test_pages import store as store_tools, used

SECRET = "marmalade"
REQUEST = {
    "model": SECRET,
    "system": SECRET,
    "tools": [{"name": SECRET, "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": SECRET}],
}
ANSWER = {"content": [{"type": "text", "text": SECRET}], "stop_reason": "end_turn"}
# Of parts and files of a call, which no list of pages has.
PARTS = (
    *("/request/raw/part", "/request/front/part", "/request/messages/1-9/part", "/request/block/0.0"),
    *("/request/json/0.0/part", "/request/file/0.0", "/response/read/part", "/response/json/0"),
    *("/replay", "/compare/1"),
)  # fmt: skip


def list_addresses(call_id, session):
    yield from list_pages([call_id], session)
    yield from (f"/traces/usage/{call_id}{part}" for part in PARTS)
    yield from (
        "/?by=session",
        "/?by=model",
        "/overview.json?by=session",
        "/overview.json?by=client",
    )
    yield from (
        "/calls?period=all",
        f"/search.json?q={SECRET}",
        f"/sessions/{session}/savings.json",
    )


def get(person, address):
    headers = person.bearer if address.startswith("/api/") else {}
    return person.get(address, **headers)


@pytest.fixture
def cid(cid):
    """Somebody whose calls have a word in every text that pages show."""
    cid.record(
        *[{}] * 3,
        created_at=clock.format_ms(clock.now()),
        slug=SECRET,
        session_id=SECRET,
        model=SECRET,
        client=SECRET,
        agent_id=SECRET,
        title_text=SECRET,
        upstream_request_id=SECRET,
        request_body=json.dumps(REQUEST).encode(),
        response_body=json.dumps(ANSWER).encode(),
    )
    store_findings(cid, row("cache_break", 150.0, subject=SECRET), session=SECRET)
    store_tools(cid, (SECRET, SECRET, SECRET, used(3, 1, 3_000, 10.0, 100.0, 200.0)))
    with TraceDatabase(cid.path) as traces:
        assert not Indexer(traces.connection, time.monotonic).run(60)
    return cid


@pytest.mark.slow
def test_no_page_has_anything_of_another_organisation(ann, cid):
    ann.record(session_id="own", created_at=clock.format_ms(clock.now()))
    own = [*list_addresses(1, "own")]
    for address in own:
        response = get(ann, address)
        text = response.text.replace(f"q={SECRET}", "").replace(f'value="{SECRET}"', "")
        assert SECRET not in text, address
    for address in sorted({*list_addresses(2, SECRET)} - {*own}):
        response = get(ann, address)
        assert response.status_code == 404 or SECRET in address.partition("?")[2], address
        assert SECRET not in response.text.replace(quote(address), ""), address
    theirs = [each for each in list_addresses(2, SECRET) if not each.startswith("/traces")]
    assert sum(SECRET in get(cid, each).text for each in theirs) > 25, "those whose calls they are"


def test_every_page_asks_to_sign_in(ann, stranger):
    ann.record(session_id="own")
    for address in ("/help/costs", *list_addresses(1, "own")):
        response = stranger.get(address)
        if response.status_code == 303:
            path = address.partition("?")[0]
            assert response.headers["location"].startswith("/sign-in"), address
            assert quote(path) in response.headers["location"] or path == "/", address
            response = stranger.get(address, headers={"accept": "application/json"})
        assert response.status_code == 401, address
        assert response.json()["error"]["code"] in ("not_signed_in", "unauthorized"), address
