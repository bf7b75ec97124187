"""From nothing to a trace that can be read, by clicking: endpoint, key, call, pages, and the end of both."""

import json

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.messages import Answer, Counts, text, tool_use
from tests.rawclient import Response

SLUG = "airport"
QUESTION = "How far is it to the airport?"
REPLY = Answer(content=[text("Let me look."), tool_use("look_up_route", {"to": "the airport"})])
LONG = "A long story. " * 8_000
MODEL = "claude-opus-5-5"
BILL = (
    "return [...document.querySelectorAll('.bill tbody td:first-child')].map((c) => c.textContent)"
)


def create_endpoint(visitor: Visitor) -> None:
    visitor.follow("New endpoint", "link")
    visitor.fill("Name", "Cab")
    visitor.fill("Slug (optional)", SLUG)
    visitor.follow("Create endpoint", "button")
    visitor.see("The endpoint was created and is ready to use.")


def create_key(visitor: Visitor) -> str:
    """Create a key, and return it as it is shown once."""
    visitor.follow("People & keys", "link")
    visitor.follow("New key", "link")
    visitor.fill("Name", "Key of the cab")
    visitor.follow("Create key", "button")
    visitor.see("Copy it now: it is not shown again.")
    return str(visitor.run("return document.querySelector('[data-copy]').dataset.copy"))


def ask(site: Site, words: str) -> Response:
    request = {
        "model": MODEL,
        "stream": True,
        "system": "You drive a cab.",
        "messages": [{"role": "user", "content": words}],
    }
    header = ("X-Claude-Code-Session-Id", "the drive")
    return site.call(json.dumps(request).encode(), SLUG, header)


def read_calls(visitor: Visitor) -> None:
    """Go from the home page to both calls."""
    visitor.follow("Home", "link")
    visitor.see("14 days")
    visitor.see(MODEL.removeprefix("claude-"))
    visitor.follow("Calls", "link")
    visitor.see(SLUG)
    with visitor.page_change():
        # Found and pressed at once: a row is drawn anew when its call has ended.
        visitor.run("document.querySelector('table.calls td a').click()")
    assert visitor.heading.startswith("look_up_route")
    visitor.see(MODEL)
    page = visitor.path
    visitor.open(f"{page}/cost")
    visitor.see("List price")
    visitor.see("Price list:")
    assert [line.strip() for line in visitor.run(BILL)] == [
        "Uncached input",
        "Cache reads",
        "Cache writes, 5 minutes",
        "Cache writes, 1 hour",
        "Output",
    ]
    visitor.see(f"${Counts().cost_cents / 100:.4f}")

    visitor.open(page)
    visitor.see(LONG[:120].strip())
    assert "You drive a cab." not in visitor.text, "it is folded"
    visitor.run("document.querySelector('.folded > summary').click()")
    visitor.see("You drive a cab.")
    visitor.see("Let me look.")
    visitor.see("look_up_route")

    visitor.follow("← Turn 1", "link")
    visitor.see(QUESTION)
    visitor.follow("Turn 2 →", "link")
    assert "← Turn 1" in visitor.names("link")
    assert "Turn 3 →" not in visitor.names("link")


def test_calls_through_a_new_endpoint_are_read_until_it_is_deleted(browser, new_browser, site):
    site.upstream.choose = lambda _request: REPLY.script(streamed=True)
    site.sign_in(browser, "owner@example.org")
    browser.open("/settings")
    create_endpoint(browser)
    browser.see(f"{site.url}/proxy/{SLUG}")
    key = create_key(browser)
    list_page = new_browser()
    site.sign_in(list_page, "owner@example.org")
    list_page.open("/traces/usage")
    browser.follow("Home", "link")
    browser.see("No calls yet.")
    list_page.see("Nothing has been recorded yet.")
    assert ask(site, QUESTION).status == 200
    browser.see("14 days")
    list_page.see(QUESTION)
    assert ask(site, LONG).status == 200
    assert site.count_calls(SLUG) == 2
    given = site.get("/traces/usage.json?_shape=array", key)
    assert [row["slug"] for row in json.loads(given.body)] == [SLUG, SLUG]
    read_calls(browser)

    browser.follow("Settings", "link")
    browser.follow("People & keys", "link")
    assert key not in browser.source
    browser.follow("Delete Key of the cab", "link")
    browser.follow("Cancel", "link")
    assert site.get("/traces/usage.json", key).status == 200
    browser.follow("Delete Key of the cab", "link")
    browser.follow("Delete the key", "button")
    browser.see("The key was deleted. Requests with it are refused.")
    assert site.get("/traces/usage.json", key).status == 401

    browser.follow("Endpoints", "link")
    browser.follow("Cab", "link")
    browser.follow("Delete this endpoint", "link")
    browser.follow("Delete the endpoint", "button")
    browser.see("The endpoint was deleted. Calls to it are refused.")
    assert ask(site, QUESTION).status == 404


# Each page is told of calls as soon as it follows, as after all calls were erased while somebody followed.
TOLD_AT_ONCE = """
sessionStorage.pages = Number(sessionStorage.pages ?? 0) + 1;
window.EventSource = class extends EventTarget {
  constructor() {
    super();
    setTimeout(() => this.dispatchEvent(new MessageEvent("calls", { lastEventId: "7" })));
  }
  close() {}
};
"""
FETCHED = "return performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'fetch').length"


def test_a_page_without_calls_is_loaded_again_only_if_it_is_another_one(browser, site):
    site.sign_in(browser, "nobody@example.org")
    browser.cdp("Page.addScriptToEvaluateOnNewDocument", source=TOLD_AT_ONCE)
    browser.open("/")
    browser.wait_for(lambda: browser.run(FETCHED), "the page that was fetched")
    browser.see("No calls yet.")
    assert browser.run("return sessionStorage.pages") == "1"
