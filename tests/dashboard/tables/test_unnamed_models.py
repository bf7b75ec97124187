"""Calls that failed name no model. What the list, its filters and the counts say of them agrees."""

import re

import pytest

from runtime import clock
from tests.dashboard.pages import Page

FAILED = {
    "model": None,
    "request_model": "claude-a",
    "outcome": "upstream_error",
    "status_code": 529,
    "usage_source": "none",
    "cost_cents": None,
    "cost_items": (),
}
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@pytest.fixture
def ann(ann):
    now = clock.format_ms(clock.now())
    good = {"model": "claude-a", "request_model": "claude-a"}
    ann.record(good, good, FAILED, FAILED | {"request_model": "claude-b"}, FAILED, created_at=now)
    return ann


@pytest.fixture
def ask(client, ann):
    async def ask(path):
        answer = await client.get(path, headers=ann.cookie)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    return ask


async def count_calls(ask, address):
    page = await ask(address)
    found = re.match(r"([\d,]+) calls?\b", page.find("p", "lede")[0].text)
    listed = len(page.find("td", "time"))
    assert found is not None
    assert int(found[1]) == listed
    return listed


def links(page, cls):
    """Texts and addresses of the links in cells or facets of a class."""
    return [
        (each.text, each.attributes["href"])
        for each in page.find("a")
        if any(parent.has_class(cls) for parent in each.parents)
    ]


async def test_a_requested_model_leads_to_exactly_the_calls_that_name_no_other(ask):
    listed = links(await ask("/traces/usage"), "model")
    assert [text for text, _ in listed if "requested" in text] == [
        "claude-a requested",
        "claude-b requested",
        "claude-a requested",
    ]
    for text, address in listed:
        if "requested" in text:
            wanted = 2 if text.startswith("claude-a") else 1
            assert await count_calls(ask, address) == wanted


async def test_a_count_by_model_counts_every_call_of_the_list(ask):
    page = await ask("/traces/usage?_facet=model")
    (facet,) = page.find("section", "facet")
    rows = [each.text for each in page.find("li") if facet in each.parents]
    assert rows == ["claude-a 2", "not set 3"]
    for text, link in links(page, "facet"):
        if text != "✕Remove the count by model":
            wanted = {"claude-a": 2, "not set": 3}[text]
            assert await count_calls(ask, link) == wanted
    (unset,) = [link for text, link in links(page, "facet") if text == "not set"]
    page = await ask(unset)
    assert [each.text for each in page.find("li", "selected")] == [
        "Remove the condition: ✕ not set 3"
    ]


async def test_a_facet_without_empty_values_has_no_such_row(ask):
    page = await ask("/traces/usage?_facet=slug&_facet=status_code&model=claude-a")
    assert "not set" not in " ".join(each.text for each in page.find("section", "facet"))


async def test_a_page_of_one_model_says_where_the_failed_calls_are(ask):
    page = await ask("/traces/usage?model=claude-a")
    assert await count_calls(ask, "/traces/usage?model=claude-a") == 2
    (address,) = [
        each.attributes["href"]
        for each in page.find("a")
        if "request_model=claude-a" in each.attributes.get("href", "")
    ]
    assert await count_calls(ask, address) == 2


async def test_the_models_of_today_link_to_as_many_calls_as_they_count(ask):
    page = await ask("/?period=today&measure=calls")
    counted = {}
    for head in page.find("th", "grow"):
        row = head.parents[-1]
        links = [each for each in page.find("a") if row in each.parents]
        calls = next(each.text for each in page.find("td", "strong") if row in each.parents)
        counted[links[0].text] = int(calls)
        listed = await ask(links[0].attributes["href"])
        assert len(listed.find("td", "time")) == counted[links[0].text]
    assert counted == {"a": 2, "a (requested)": 2, "b (requested)": 1}
