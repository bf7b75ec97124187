"""Pages of recorded text whose making takes too long: what is shown instead, and who waits."""

import asyncio
import json
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboard.page_forwarding import MAX_REMEMBERED, REMEMBERED_S, PageForwarding, SlowPages
from dashboard.queries import query
from dashboard.queries.page_request import PageRequest
from dashboard.queries.protocol import HEADER
from dashboard.queries.query_proxy import QueryProxy, StoppedError
from dashboard.queries.refusals import MAX_KILLS
from store.control.people import Caller
from store.control.sessions import Visitor
from store.traces.database import TraceDatabase
from store.traces.paths import trace_path_in
from tests.dashboard.pages import words_of
from tests.dashboard.queries.pool import COUNT, Client, may_read, running_pool
from tests.dashboard.slow_texts import SLOW_TEXTS
from tests.store.traffic import make_entry
from tests.upstream import wait_until

PLAIN = "Shown without colours and formatting, which took too long."
ANN = Visitor(
    user_id="u",
    organization_id="ours",
    role="owner",
    email="änn@example.org",
    organization_name="Ö",
    time_zone="Asia/Kolkata",
)


def make_page(n=1, **changes):
    known: dict[str, Any] = {
        "name": "call",
        "caller": ANN,
        "base_url": "http://meter.example",
        "vendor": "anthropic",
        "is_for_program": False,
        "arguments": {"path": f"/traces/usage/{n}", "notices": []},
    }
    return PageRequest(**(known | changes))


@pytest.mark.parametrize(
    "caller", [ANN, Caller(user_id="k", organization_id="ours", role="member")]
)
def test_a_query_process_reads_the_request_that_was_written(caller):
    page = make_page(caller=caller, is_for_program=True, is_plain=True)
    assert PageRequest.read({"headers": [(HEADER, page.encode())]}) == page


def test_slow_pages_are_remembered_for_a_while_and_not_without_end():
    now_s = [0.0]
    slow = SlowPages(lambda: now_s[0])
    slow.add(make_page(1))
    assert make_page(1) in slow
    assert make_page(1, is_plain=True) in slow
    assert make_page(2) not in slow
    assert make_page(1, caller=Caller(user_id="c", organization_id="c", role="owner")) not in slow
    now_s[0] += REMEMBERED_S
    assert make_page(1) not in slow
    for n in range(1, MAX_REMEMBERED + 2):
        slow.add(make_page(n))
    assert make_page(1) not in slow
    assert make_page(2) in slow


def as_request(path="/traces/usage/1"):
    return Request(
        {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"accept", b"text/html")],
        }
    )


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Query processes, and an organisation with a call for each slow text, after one that is not slow."""
    traces = tmp_path_factory.mktemp("data") / "traces"
    good = json.dumps({"messages": [{"role": "user", "content": "```python\nimport this\n```"}]})
    bodies = [good.encode(), *SLOW_TEXTS.values()]
    with TraceDatabase(trace_path_in(traces, "ours")) as db:
        db.insert([make_entry(request_body=body, session_id="s") for body in bodies])
    with running_pool(traces) as pool:
        yield pool


@pytest.fixture
def impatient(monkeypatch):
    """Take a page for a slow one sooner than people's are."""
    monkeypatch.setattr(query, "PAGE_CPU_S", 0.4)


@pytest.fixture
def forwarding(pool):
    """The web process's side."""
    pool.wait_ready()
    with closing(QueryProxy(pool.folder, COUNT - 1)) as proxy:
        yield make_forwarding(proxy)


def make_forwarding(queries: Any) -> PageForwarding:
    settings: Any = SimpleNamespace(base_url="http://meter.example", vendor="anthropic")
    visitors: Any = SimpleNamespace(check_caller=lambda *_: may_read())
    return PageForwarding(settings, visitors, queries)


async def visit(forwarding, n, name="call", **arguments):
    given = arguments or {"path": f"/traces/usage/{n}", "notices": []}
    client = Client()
    client.reads.set()
    page = forwarding.respond(as_request(), ANN, name, given)
    await page({"type": "http"}, client.receive, client.send)
    assert client.is_whole
    return client.status, client.body.decode()


@pytest.mark.live
@pytest.mark.parametrize("name", SLOW_TEXTS)
async def test_a_page_that_takes_too_long_is_plain_and_others_do_not_wait(
    forwarding, impatient, pool, name
):
    n = list(SLOW_TEXTS).index(name) + 2
    slow = asyncio.create_task(visit(forwarding, n))
    served = 0
    while not slow.done():
        status, page = await visit(forwarding, 0, "context", usage_id=1, sort="tokens")
        assert status == 200
        served += 1
        await asyncio.wait({slow}, timeout=0.05)
    status, page = slow.result()
    assert (status, served > 0) == (200, True)
    assert PLAIN in words_of(page)
    assert "claude" in page
    wait_until(lambda: len(pool.pids()) == COUNT, "another process in its place")


@pytest.mark.live
async def test_a_page_that_does_not_take_long_has_colours(forwarding):
    status, page = await visit(forwarding, 1)
    assert (status, PLAIN in words_of(page)) == (200, False)
    assert '<span class="hl-keyword">import</span>' in page


@pytest.mark.live
async def test_texts_that_others_recorded_close_nothing_to_their_readers(forwarding, impatient):
    views = (
        "read",
        "messages/0-1",
        "messages/1-1",
    )  # each another page, with a process killed for it
    assert len(views) == MAX_KILLS
    for view in views:
        status, page = await visit(forwarding, 2, path=f"/traces/usage/2/request/{view}")
        assert (status, PLAIN in words_of(page)) == (200, True)
    assert (await visit(forwarding, 1))[0] == 200


@pytest.mark.live
@pytest.mark.parametrize("name", SLOW_TEXTS)
async def test_a_file_of_a_session_has_slow_texts_as_they_are(forwarding, impatient, name):
    n = list(SLOW_TEXTS).index(name) + 2
    asked = {"usage_ids": [1, n], "pictures_bytes": 0}
    found = await forwarding.fetch(as_request(), ANN, "export", asked)
    assert all(PLAIN in words_of(each) for each in found["words"])
    assert found["pictures_bytes"] == 0


async def test_what_takes_too_long_even_plain_is_refused():
    asked = []

    async def forward(query, _receive, _send):
        asked.append(query.page.is_plain)
        raise StoppedError("it takes too long")

    forwarding = make_forwarding(SimpleNamespace(forward=forward))
    for _ in range(2):
        with pytest.raises(HTTPException) as caught:
            await visit(forwarding, 1)
        assert caught.value.status_code == 503
        assert "Download" in caught.value.detail
    assert asked == [False, True, True]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"status": 200}],
        [{"status": 200}, {"body": b'{"a": ', "more_body": True}],
        [{"status": 404}, {"body": b"{}"}],
    ],
)
async def test_a_part_of_a_page_that_did_not_come_as_a_whole_is_503(messages):
    async def forward(_query, _receive, send):
        for message in messages:
            await send(message)

    forwarding = make_forwarding(SimpleNamespace(forward=forward))
    with pytest.raises(HTTPException) as caught:
        await forwarding.fetch(as_request(), ANN, "export", {})
    assert caught.value.status_code == 503
