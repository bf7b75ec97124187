"""Searching what was said, from the box on every page."""

import pytest
from selenium.webdriver.common.keys import Keys

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


@pytest.fixture
def reader(talked, signed_in):
    return signed_in


def search_until_found(reader, words):
    """The index follows the call within some two seconds."""

    def is_found() -> bool:
        reader.open(f"/search?q={words}")
        return "Call" in reader.text

    reader.wait_for(is_found, "a hit")


def test_a_phrase_is_found_with_the_keyboard_alone(reader):
    search_until_found(reader, "quokkadile")
    reader.open("/sessions")
    reader.press("/")
    assert reader.focused == "Search what was said"
    reader.press('"quokkadile sleeps"')
    with reader.page_change():
        reader.press(Keys.ENTER)
    assert reader.path == "/search"
    reader.see("quokkadile sleeps in the <b>shade</b>")
    reader.see("assistant")
    reader.screenshot("search")
    marks = reader.run("return [...document.querySelectorAll('mark')].map(e => e.textContent)")
    assert "quokkadile sleeps" in marks


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_no_faults(reader, width, scheme):
    search_until_found(reader, "quokkadile")
    reader.resize(width, 800)
    reader.prefer(scheme)
    reader.open("/search?q=quokkadile&role=assistant&since=2026-01-01")
    assert reader.faults() == []
    reader.screenshot(f"search-{width}-{scheme}")
