"""Pages that follow: new calls come in without moving what is read, and calls in flight grow."""

import json

import pytest

from tests.browser.held import STORY, held_call
from tests.browser.site import Site
from tests.live.messages import Answer, text
from tests.upstream import Script, SeenRequest

ROWS = "return [...document.querySelectorAll('[data-live-list] > [data-key], .story .line[data-call]')].map((row) => row.dataset.key || row.id)"
BAR = "return document.querySelector('.live-bar:not([hidden])')?.textContent ?? ''"
TOP = "return document.querySelectorAll('[data-live-list] > *')[arguments[0]].getBoundingClientRect().top"
MARKUP = "<b onclick=alert(1)>bold</b>"


@pytest.fixture(scope="module")
def is_drawn() -> bool:
    return True


@pytest.fixture(autouse=True)
def _answering(site: Site):
    def choose(request: SeenRequest) -> Script:
        return Answer(content=[text("Good day.")]).script(streamed=b'"stream"' in request.body)

    site.upstream.choose = choose


@pytest.fixture
def reader(signed_in):
    yield signed_in
    signed_in.run("localStorage.clear()")


def ask(site, words="Hello", *headers, count=1):
    body = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": words}]}
    for _ in range(count):
        assert site.call(json.dumps(body).encode(), "default", *headers).status == 200


def wait_for_row(reader, before, more=1):
    reader.wait_for(lambda: len(set(reader.run(ROWS)) - set(before)) >= more, "a new row")


def test_at_the_top_of_the_list_new_calls_come_in_by_themselves(site, reader):
    ask(site, count=2)
    site.count_calls()
    reader.open("/traces/usage")
    before = reader.run(ROWS)
    ask(site, f"New words {MARKUP}")
    wait_for_row(reader, before)
    rows = reader.run(ROWS)
    assert rows[1 : 1 + len(before)] == before[: len(rows) - 1]
    reader.see(f"New words {MARKUP}")
    assert reader.faults() == []


def test_new_calls_come_in_also_where_the_service_was_too_busy_at_first(site, reader):
    ask(site)
    site.count_calls()
    reader.open("/traces/usage")
    before = reader.run(ROWS)
    reader.run(
        "const real = window.fetch;"
        " window.fetch = async () => { window.fetch = real; return new Response('', {status: 503}); }"
    )
    ask(site)
    wait_for_row(reader, before)


def test_further_down_a_bar_tells_of_them_and_nothing_moves(site, reader):
    ask(site, count=12)
    site.count_calls()
    reader.resize(900, 400)
    reader.open("/traces/usage")
    before = reader.run(ROWS)
    reader.run("document.querySelectorAll('[data-live-list] > *')[5].scrollIntoView()")
    reader.run(
        "document.querySelectorAll('[data-live-list] > * a')[5].focus({preventScroll: true})"
    )
    top, focused = pytest.approx(reader.run(TOP, 5), abs=1.5), reader.focused
    with held_call(site, "A long story"):
        reader.see("1 call in flight")
        assert reader.run(TOP, 5) == top, "what is shown above it moves nothing"
    ask(site)
    reader.wait_for(lambda: reader.run(BAR) == "2 new calls", "the bar")
    assert reader.run(TOP, 5) == top
    assert reader.run(ROWS) == before
    assert reader.focused == focused
    reader.click("2 new calls", "button")
    wait_for_row(reader, before, 2)
    assert reader.run(ROWS)[2:] == before
    assert reader.run(TOP, 7) == top
    assert reader.run(BAR) == ""


def test_following_can_be_switched_off_which_is_remembered(site, reader):
    ask(site)
    site.count_calls()
    reader.open("/traces/usage")
    reader.click("Live", "button")
    reader.reload()
    assert reader.find("Live", "button").get_attribute("aria-pressed") == "false"
    before = reader.run(ROWS)
    ask(site)
    site.count_calls()
    reader.click("Live", "button")
    wait_for_row(reader, before)


def test_a_call_in_flight_leads_to_its_response_as_it_grows(site, reader):
    ask(site)
    site.count_calls()
    with held_call(site, "A long story") as gate:
        reader.open("/traces/usage")
        reader.see("1 call in flight")
        reader.see("A long story")
        # Found and pressed at once: the row is drawn anew every now and then.
        reader.driver.execute_script("document.querySelector('.flights a').click()")
        reader.see("Response so far")
        shown = "return document.querySelector('[data-part=\"0\"] pre')?.textContent ?? ''"
        reader.wait_for(lambda: reader.run(shown), "the first words")
        first = reader.run(shown)
        assert len(first) < len(STORY.text)
        assert STORY.text.startswith(first)
        assert reader.faults() == []
        gate.open()
        # Still in flight: a page that begins to follow only now is sent all of it too.
        reader.wait_for(lambda: reader.run(shown) == STORY.text, "all of it")
    reader.follow("Open the call")
    assert reader.path.startswith("/calls/")
    reader.see("It was the best of times")


def test_a_session_is_followed_at_its_end(site, reader):
    session = ("x-claude-code-session-id", "live-session")
    ask(site, "First", session, count=2)
    site.count_calls()
    reader.open("/sessions/live-session")
    before = reader.run(ROWS)
    assert len(before) == 2
    ask(site, "Of another session")
    ask(site, "Third", session)
    wait_for_row(reader, before)
    assert reader.run(ROWS)[:2] == before
    assert len(reader.run(ROWS)) == 3
    reader.see("Third")
    with held_call(site, "Fourth", session):
        reader.see("1 call in flight")


def test_the_home_page_counts_on(site, reader):
    ask(site)
    site.count_calls()
    reader.open("/")
    figure = (
        "return document.querySelector('.strip.home > div').textContent.match(/([0-9,]+) calls?/)[1]"
        ".replace(',', '')"
    )
    before = int(reader.run(figure))
    ask(site)
    reader.wait_for(lambda: int(reader.run(figure)) == before + 1, "one more")
    with held_call(site, "A long story"):
        reader.see("1 in flight")
    reader.wait_for(lambda: "in flight" not in reader.text, "its end")
