"""Pages that follow: events of new calls and of calls in flight, and when they end."""

import asyncio
import gzip

import httpx
import pytest

from dashboard.live import feeds, pages, streams
from manage.server import make_app
from store.control import people
from store.control.sign_in import SignIn
from tests.dashboard.live.following import Proxy, following, sse
from tests.dashboard.people import BASE_URL

FOLLOW = "/live/events"
MARKUP = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(feeds, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(pages, "HEARTBEAT_S", 0.02)
    monkeypatch.setattr(pages, "GROWTH_EVERY_S", 0.01)
    monkeypatch.setattr("dashboard.live.in_flight.FRESH_S", 0)


@pytest.fixture
async def app(settings, control, queries):
    app = make_app(settings)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def browser(app):
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        yield client


@pytest.fixture
def live(app):
    """The pages of the application, which know its streams."""
    return app.state.end_streams.__self__._live


@pytest.fixture
def proxy(settings):
    proxy = Proxy(settings.spool_path)
    yield proxy
    proxy.close()


def ask(body=b""):
    return b'{"model": "claude-x", "messages": [{"role": "user", "content": "Hello there"}]}' + body


async def test_a_stored_call_is_an_event_with_its_id(app, ann):
    first = ann.record()
    async with following(app, f"{FOLLOW}?after={first}", ann.cookie) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "private, no-store"
        second = ann.record()
        assert await stream.next() == ("calls", {}, str(second))
        third = ann.record()
        assert await stream.next() == ("calls", {}, str(third))


async def test_calls_before_the_first_are_followed_too(app, ann):
    async with following(app, FOLLOW, ann.cookie) as stream:
        usage_id = ann.record()
        assert (await stream.find("calls")).id == str(usage_id)


@pytest.mark.parametrize(("after", "is_told"), [(0, True), (2, True), (3, False)])
async def test_a_page_learns_what_it_missed_and_nothing_else(app, ann, after, is_told):
    ann.record({}, {}, {})
    headers = ann.cookie | {"last-event-id": str(after)}
    async with following(app, f"{FOLLOW}?after=0", headers) as stream:
        if not is_told:
            assert ann.record() == 4
        assert (await stream.find("calls")).id == ("3" if is_told else "4")


async def test_a_page_of_a_session_is_told_of_that_session_alone(app, ann):
    first = ann.record(session_id="mine")
    async with following(app, f"{FOLLOW}?after={first}&session=mine", ann.cookie) as stream:
        for session in ("other", None, "mine", "other", "mine"):
            usage_id = ann.record(session_id=session)
            if session == "mine":
                assert (await stream.find("calls")).id == str(usage_id)


async def test_calls_in_flight_are_listed_with_what_they_ask(app, ann, proxy):
    entry_id, file = proxy.begin(ann.organization_id, ask(), session_id="s")
    async with following(app, f"{FOLLOW}?flights=1", ann.cookie) as stream:
        event = await stream.find("flights")
        assert event.data["count"] == 1
        for words in (f"/live/{entry_id}", "claude-x", "Hello there", "waiting", "data-age="):
            assert words in event.data["html"]
        proxy.respond(file)
        assert "responding" in (await stream.find("flights")).data["html"]
        file.discard()
        assert (await stream.find("flights")).data == {"count": 0, "html": ""}


async def test_titles_of_calls_in_flight_are_no_markup(app, ann, proxy):
    body = ask().replace(b"Hello there", MARKUP.encode())
    proxy.begin(ann.organization_id, body, slug="default")
    async with following(app, f"{FOLLOW}?flights=1", ann.cookie) as stream:
        html = (await stream.find("flights")).data["html"]
        assert MARKUP not in html
        assert "&lt;script&gt;" in html


async def test_a_page_of_a_session_has_its_calls_in_flight_alone(app, ann, proxy):
    proxy.begin(ann.organization_id, ask(), session_id="mine")
    proxy.begin(ann.organization_id, ask(), session_id="other")
    async with following(app, f"{FOLLOW}?flights=1&session=mine", ann.cookie) as stream:
        assert (await stream.find("flights")).data["count"] == 1


async def test_two_organisations_see_nothing_of_each_other(app, browser, ann, cid, proxy):
    ann.record()
    entry_id, file = proxy.begin(ann.organization_id, ask())
    proxy.respond(file, sse({"type": "message_start", "message": {}}))
    async with following(app, f"{FOLLOW}?flights=1", cid.cookie) as stream:
        event = await stream.next()
        assert event == ("flights", {"count": 0, "html": ""}, None)
        ann.record()
        proxy.begin(ann.organization_id, ask())
        theirs = cid.record()
        assert await stream.next() == ("calls", {}, str(theirs))
    async with following(app, f"/live/{entry_id}/events", cid.cookie) as stream:
        assert await stream.next() == ("ended", {"address": None}, None)
        assert await stream.next() is None
    assert (await browser.get(f"/live/{entry_id}", headers=cid.cookie)).status_code == 404


async def test_a_stranger_is_refused(app, control):
    for path in (FOLLOW, "/live/x/events", "/live/x"):
        async with following(app, path, {}) as stream:
            assert stream.status == 303


async def test_a_stream_ends_with_the_session_of_its_visitor(app, ann, control):
    async with following(app, FOLLOW, ann.cookie) as stream:
        SignIn(control).sign_out(ann.session)
        assert (await stream.next()).name == "end"
        assert await stream.next() is None


async def test_a_removed_member_is_told_of_no_further_call(app, ann, control, monkeypatch):
    monkeypatch.setattr(pages, "HEARTBEAT_S", 60)
    first = ann.record()
    async with following(app, f"{FOLLOW}?after={first}", ann.cookie) as stream:
        with control.transaction() as db:
            people.delete_user(db, ann.user_id)
        ann.record()
        assert (await stream.next()).name == "end"


async def test_nobody_listens_and_nothing_looks(app, ann, live):
    ann.record()
    assert live.feeds.count == 0
    async with following(app, FOLLOW, ann.cookie) as one:
        await one.find("calls")
        async with following(app, FOLLOW, ann.cookie) as two:
            await two.find("calls")
            assert live.feeds.count == 1
        assert live.feeds.count == 1
    assert live.feeds.count == 0
    assert live.streams.count == 0


async def test_an_idle_stream_asks_the_database_nothing(app, ann, live, monkeypatch):
    ann.record()
    async with following(app, FOLLOW, ann.cookie) as stream:
        await stream.find("calls")
        (feed, _) = live.feeds._feeds[ann.organization_id]
        await asyncio.wait_for(_wait_for(lambda: feed._is_settled), 60)
        read = []

        def note():
            read.append(1)
            return False

        monkeypatch.setattr(feed, "_read", note)
        looked = 0
        look = feed.look

        async def count():
            nonlocal looked
            looked += 1
            await look()

        monkeypatch.setattr(feed, "look", count)
        await asyncio.wait_for(_wait_for(lambda: looked > 5), 60)
        assert read == []


async def _wait_for(condition):
    while not condition():
        await asyncio.sleep(0.01)


async def test_there_are_only_so_many_streams(app, ann, cid, monkeypatch, live):
    monkeypatch.setattr(streams, "MAX_OF_USER", 2)
    async with following(app, FOLLOW, ann.cookie), following(app, FOLLOW, ann.cookie):
        async with following(app, FOLLOW, ann.cookie) as third:
            assert third.status == 429
            assert third.headers["retry-after"] == "30"
        async with following(app, FOLLOW, cid.cookie) as other:
            assert other.status == 200
        monkeypatch.setattr(streams, "MAX_OF_ADDRESS", 2)
        async with following(app, FOLLOW, cid.cookie) as other:
            assert other.status == 429
    async with following(app, FOLLOW, ann.cookie) as again:
        assert again.status == 200
    assert live.streams.count == 0


async def test_the_end_of_the_service_ends_streams_at_once(app, ann, monkeypatch):
    monkeypatch.setattr(pages, "HEARTBEAT_S", 60)
    async with following(app, FOLLOW, ann.cookie) as stream:
        app.state.end_streams()
        while await stream.next() is not None:
            pass
        await asyncio.wait_for(stream.task, 60)
    async with following(app, FOLLOW, ann.cookie) as late:
        assert late.status == 503


# -- one call in flight ------------------------------------------------------------------------------

START = {"type": "message_start", "message": {"model": "claude-x"}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}


def delta(text):
    return {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": text},
    }


async def test_the_response_of_a_call_grows_until_it_has_a_page(app, ann, proxy):
    entry_id, file = proxy.begin(ann.organization_id, ask())
    async with following(app, f"/live/{entry_id}/events", ann.cookie) as stream:
        event = await stream.next()
        assert event.data == {"status": "Waiting for the upstream.", "parts": []}
        proxy.respond(file, sse(START, BLOCK, delta("Good ")))
        event = await stream.find("response")
        while not event.data["parts"]:
            event = await stream.find("response")
        assert event.data["parts"] == [{"part": 0, "label": "Text", "at": 0, "text": "Good "}]
        file.write_chunk(sse(delta("day.")), 3.0)
        event = await stream.find("response")
        assert event.data["parts"] == [{"part": 0, "label": "Text", "at": 5, "text": "day."}]
        usage_id = ann.record(entry_id=entry_id)
        file.discard()
        assert (await stream.next()).data == {"address": f"/calls/{usage_id}"}
        assert await stream.next() is None


async def test_a_compressed_response_is_read_as_far_as_it_has_come(app, ann, proxy):
    packed = gzip.compress(sse(START, BLOCK, delta("all of it"), delta(" and more")))
    entry_id, file = proxy.begin(ann.organization_id, ask())
    proxy.respond(file, packed, content_encoding="gzip")
    async with following(app, f"/live/{entry_id}/events", ann.cookie) as stream:
        parts = (await stream.next()).data["parts"]
        assert [part["text"] for part in parts] == ["all of it and more"]


async def test_a_page_without_scripts_has_what_came_so_far(browser, ann, proxy):
    entry_id, file = proxy.begin(ann.organization_id, ask(), session_id="s/1")
    proxy.respond(file, sse(START, BLOCK, delta(MARKUP)))
    page = (await browser.get(f"/live/{entry_id}", headers=ann.cookie)).text
    assert "Hello there" in page
    assert 'href="/sessions/s%2F1"' in page
    assert MARKUP not in page
    assert "&lt;script&gt;alert(1)" in page


async def test_a_call_that_has_ended_leads_to_its_page(browser, ann, proxy):
    entry_id, file = proxy.begin(ann.organization_id, ask())
    file.discard()
    usage_id = ann.record(entry_id=entry_id)
    answer = await browser.get(f"/live/{entry_id}", headers=ann.cookie)
    assert answer.headers["location"] == f"/calls/{usage_id}"
    unknown = await browser.get("/live/..%2f..%2fnothing", headers=ann.cookie)
    assert unknown.status_code == 404
