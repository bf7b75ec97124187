"""From nothing to a trace that can be read, by clicking: endpoint, key, call, pages, and the end of both."""

import json
from dataclasses import dataclass

import pytest

from tests.browser.site import Site
from tests.browser.visitor import Visitor
from tests.live.messages import Answer, Counts, text, tool_use
from tests.rawclient import Response

OWNER = "owner@example.org"
QUESTION = "How far is it to the airport?"
REPLY = Answer(content=[text("Let me look."), tool_use("look_up_route", {"to": "the airport"})])
LONG = "A long story. " * 8_000
MODEL = "claude-opus-5-5"
BILL = (
    "return [...document.querySelectorAll('.bill tbody td:first-child')].map((c) => c.textContent)"
)


def create_endpoint(visitor: Visitor, name: str, slug: str) -> None:
    visitor.open("/settings")
    if "Slug (optional)" not in visitor.labels():
        visitor.click("Create an endpoint", "menu")
    visitor.fill("Name", name)
    visitor.fill("Slug (optional)", slug)
    visitor.follow("Create endpoint", "button")
    visitor.see("The endpoint was created and is ready to use.")


def create_key(visitor: Visitor, name: str) -> str:
    """The key, as it is shown once."""
    visitor.open("/settings")
    visitor.click("Create a key", "menu")
    visitor.fill("Name", name)
    visitor.follow("Create key", "button")
    visitor.see("Copy it now: it is not shown again.")
    return str(visitor.run("return document.querySelector('[data-copy]').dataset.copy"))


def ask(site: Site, slug: str, words: str, session: str) -> Response:
    request = {
        "model": MODEL,
        "stream": True,
        "system": "You drive a cab.",
        "messages": [{"role": "user", "content": words}],
    }
    header = ("X-Claude-Code-Session-Id", session)
    return site.call(json.dumps(request).encode(), slug, header)


@dataclass(frozen=True)
class Owner:
    """Somebody with an endpoint and two calls, the second with a large body."""

    visitor: Visitor
    slug: str
    key: str


@pytest.fixture
def owner(site: Site, browser: Visitor) -> Owner:
    site.upstream.choose = lambda _request: REPLY.script(streamed=True)
    visitor = browser
    site.sign_in(visitor, OWNER)
    slug = f"airport-{len(site.upstream.requests)}"
    create_endpoint(visitor, f"Cab at {slug}", slug)
    key = create_key(visitor, f"Key of {slug}")
    return Owner(visitor, slug, key)


def test_a_call_through_a_new_endpoint_can_be_read_on_every_page(owner, site):
    visitor, slug = owner.visitor, owner.slug
    visitor.open("/settings")
    visitor.see(f"{site.url}/proxy/{slug}")
    assert owner.key not in visitor.source
    for words in (QUESTION, LONG):
        assert ask(site, slug, words, "the drive").status == 200
    assert site.count_calls(slug) == 2

    visitor.follow("Home", "link")
    visitor.see("Newest calls")
    visitor.see(MODEL)
    visitor.follow("Traces", "link")
    visitor.see(slug)
    with visitor.page_change():
        visitor.run("return document.querySelector('table.calls td a')").click()
    assert visitor.heading.startswith("A long story.")
    visitor.see(MODEL)
    visitor.see("List price")
    visitor.see("Price list:")
    assert visitor.run(BILL) == [
        "Uncached input",
        "Cache reads",
        "Cache writes, 5 minutes",
        "Cache writes, 1 hour",
        "Output",
    ]
    visitor.see(f"${Counts().cost_cents / 100:.4f}")

    visitor.see(LONG[:120].strip())
    assert "You drive a cab." not in visitor.text, "it is folded"
    visitor.click("System prompt, settings", "menu")
    visitor.see("You drive a cab.")
    visitor.see("Let me look.")
    visitor.see("look_up_route")

    visitor.follow("← Previous call", "link")
    visitor.see(QUESTION)
    visitor.follow("Next call →", "link")
    assert "← Previous call" in visitor.names("link")
    assert "Next call →" not in visitor.names("link")


def test_what_was_deleted_by_clicking_is_refused(owner, site):
    visitor, slug = owner.visitor, owner.slug
    assert ask(site, slug, QUESTION, "the drive").status == 200
    assert site.count_calls(slug) == 1
    given = site.get("/traces/usage.json?_shape=array", owner.key)
    assert given.status == 200
    assert [row["slug"] for row in json.loads(given.body)].count(slug) == 1

    visitor.open("/settings")
    visitor.follow(f"Delete Key of {slug}", "link")
    visitor.follow("Cancel", "link")
    assert site.get("/traces/usage.json", owner.key).status == 200
    visitor.follow(f"Delete Key of {slug}", "link")
    visitor.follow("Delete the key", "button")
    visitor.see("The key was deleted. Requests with it are refused.")
    assert site.get("/traces/usage.json", owner.key).status == 401

    visitor.follow(f"Delete Cab at {slug}", "link")
    visitor.follow("Delete the endpoint", "button")
    visitor.see("The endpoint was deleted. Calls to it are refused.")
    assert ask(site, slug, QUESTION, "the drive").status == 404
