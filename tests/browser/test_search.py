"""Searching what was said, from the box on every page."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.looks import ALL_LOOKS, assert_fit
from tests.browser.results import see_result
from tests.browser.site import Site
from tests.live.messages import Answer, text
from tests.upstream import Script, SeenRequest

# Deltas of a few characters: the word is in several of them.
SAID = "The quokkadile sleeps in the <b>shade</b> of a very long wall."


@pytest.fixture(scope="module")
def talked(site: Site) -> Site:
    """A phrase came in parts, and its call is indexed."""
    given = Answer(content=[text(SAID)])

    def choose(request: SeenRequest) -> Script:
        return given.script(streamed=b'"stream"' in request.body)

    site.upstream.choose = choose
    body = b'{"model": "claude-opus-5-5", "stream": true, "messages": [{"role": "user", "content": "hi"}]}'
    assert site.call(body).status == 200
    site.count_calls()
    return site


def wait_until_found(reader):
    """The index follows the call within some two seconds."""
    count = (
        "fetch('/search.json?q=quokkadile').then((a) => a.json()).then((a) => done(a.items.length))"
    )
    reader.wait_for(lambda: reader.run_async(count), "a hit")


def test_a_phrase_is_found_with_the_keyboard_alone(talked, reader):
    reader.open("/sessions")
    wait_until_found(reader)
    reader.press("/")
    assert reader.focused == "Search what was said"
    reader.press('"quokkadile sleeps"')
    with reader.page_change():
        reader.press(Keys.ENTER)
    assert reader.path == "/search"
    see_result(reader, "quokkadile sleeps in the <b>shade</b>")
    reader.see("assistant")
    marks = reader.run("return [...document.querySelectorAll('mark')].map(e => e.textContent)")
    assert "quokkadile sleeps" in marks

    assert_fit(reader, {"hits": "/search?q=quokkadile&role=assistant&since=2026-01-01"}, ALL_LOOKS)
