"""Every place that lists models says the same of the same calls.

Tokens are those that upstream bills. A call whose response named no model stands under the one that it
asked for, marked so.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import product

import pytest

from metering.formats import format_tokens
from runtime import clock
from tests.dashboard.pages import Page, words_of
from tests.store.traffic import make_item

pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")

SONNET, HAIKU = "claude-sonnet-4-5", "claude-haiku-4-5"
NONE = "(none)"


@dataclass(frozen=True)
class Sums:
    calls: int
    prompt: int
    output: int


def tokens(**counts):
    nothing = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return nothing | {"input_tokens": 0, "output_tokens": 0} | counts


def item(component, quantity, reason=None):
    cents = Decimal(0) if reason else Decimal(1)
    return make_item(component=component, quantity=quantity, unbilled_reason=reason, cents=cents)


REFUSED = "refused_before_output"
NO_USAGE = {"model": None, "usage_source": "none", "cost_items": (), "status_code": None} | tokens()
CALLS = (
    tokens(input_tokens=100, output_tokens=20)
    | {"cost_items": (item("input", 100), item("output", 20)), "cost_cents": Decimal(2)},
    # refused before output: nothing is billed
    tokens(input_tokens=5_000, output_tokens=1)
    | {"stop_reason": "refusal", "cost_cents": Decimal(0),
       "cost_items": (item("input", 5_000, REFUSED), item("output", 1, REFUSED))},
    # the same in a category that is billed for its input
    tokens(input_tokens=700, output_tokens=1)
    | {"stop_reason": "refusal", "cost_cents": Decimal(1),
       "cost_items": (item("input", 700), item("output", 1, REFUSED))},
    # an error with counts
    tokens(input_tokens=900)
    | {"status_code": 500, "outcome": "upstream_error", "cost_cents": Decimal(0),
       "cost_items": (item("input", 900, "failed"),)},
    NO_USAGE | {"request_model": SONNET, "outcome": "upstream_unreachable", "cost_cents": Decimal(0)},
    NO_USAGE | {"request_model": SONNET, "outcome": "upstream_timeout", "cost_cents": None},
    NO_USAGE | {"request_model": HAIKU, "outcome": "upstream_error", "status_code": 529,
                "cost_cents": Decimal(0)},
    NO_USAGE | {"request_model": None, "outcome": "upstream_unreachable", "cost_cents": Decimal(0)},
)  # fmt: skip
EXPECTED = {
    SONNET: Sums(4, 800, 20),
    f"{SONNET} (requested)": Sums(2, 0, 0),
    f"{HAIKU} (requested)": Sums(1, 0, 0),
    NONE: Sums(1, 0, 0),
}


@pytest.fixture
def ann(ann):
    at = clock.format_ms(clock.now())
    ann.record(*CALLS, created_at=at, session_id="s1", run_id="run-1", slug="desk")
    return ann


def name(model, requested):
    return model or (NONE if requested is None else f"{requested} (requested)")


def read_groups(groups, key="model"):
    """The groups of a report in JSON."""
    prompt = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return {
        name(each[key], each["request_model"]): Sums(
            each["calls"], sum(each[field] for field in prompt), each["output_tokens"]
        )
        for each in groups
    }


def test_the_api_by_period_and_by_run(ann, stranger):
    report = stranger.get("/api/usage?by=model", headers=ann.bearer).json()
    assert read_groups(report["groups"]) == EXPECTED
    assert report["totals"]["calls"] == len(CALLS)
    assert report["totals"]["unbilled_tokens"] == 5_001 + 1 + 900
    run = stranger.get("/api/runs/run-1", headers=ann.bearer).json()
    assert read_groups(run["models"]) == EXPECTED
    by_day = stranger.get("/api/usage?by=day", headers=ann.bearer).json()
    assert {each["request_model"] for each in by_day["groups"]} == {None}


def test_the_overview_from_sums_and_from_calls(ann, subtests):
    filters = "", "&session=s1", "&endpoint=desk", "&client=(none)", "&agent=(none)&endpoint=desk"
    for span, query in product(("today", "7d", "90d"), filters):
        with subtests.test(span, query=query):
            check_overview(ann, span, query)


def check_overview(ann, span, query):
    found = ann.get(f"/overview.json?by=model&span={span}{query}").json()
    assert read_groups(found["groups"], "name") == EXPECTED
    of_steps = {
        name(each["name"], each["request_model"]): each["calls"]
        for step in found["steps"]
        for each in step["groups"]
        if each["calls"]
    }
    assert of_steps == {model: sums.calls for model, sums in EXPECTED.items()}
    assert found["totals"]["calls"] == len(CALLS)


def test_an_overview_of_the_calls_that_asked_for_a_model(ann):
    for model, calls in ((f"{SONNET} (requested)", 2), (SONNET, 4), (NONE, 4)):
        for session in ("", "&session=s1"):
            found = ann.get(f"/overview.json?by=model&span=today&model={model}{session}").json()
            assert found["totals"]["calls"] == calls, (model, session)
    page = Page(ann.get("/?by=model&period=today&measure=calls").text)
    links = [each.attributes["href"] for each in page.find("a") if "requested" in each.text]
    assert links
    for link in links:
        assert ann.get(link).status_code == 200


def read_rows(page, label):
    """The rows of a table of a page: name, and what stands in each column."""
    table = re.findall(rf'aria-label="{label}".*?</table>', page, re.S)[0]
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', table, re.S)
    titles = re.findall(r'<th scope="col" class="num">(.*?)</th>', table)
    return {
        words_of(head).replace(" requested", " (requested)"): dict(
            zip(titles, map(words_of, re.findall(r"<td[^>]*>(.*?)</td>", cells)), strict=True)
        )
        for head, cells in rows
    }


def shown(sums):
    return f"{sums.calls:,}", format_tokens(sums.prompt), format_tokens(sums.output)


def test_the_home_page(ann):
    page = ann.get("/?measure=calls&period=today").text
    table = page.partition("Today against the time before, by model")[2].partition("</table>")[0]
    rows = re.findall(r"<bdi>([^<]+)</bdi>.*?strong\">([\d,]+)</td>", table, re.S)
    assert dict(rows) == {
        "No model" if model == NONE else model.removeprefix("claude-"): f"{sums.calls:,}"
        for model, sums in EXPECTED.items()
    }


async def test_the_sums_of_a_list_and_their_links(client, ann):
    page = (await client.get("/traces/usage?_sum_by=model&slug=desk", headers=ann.cookie)).text
    rows = read_rows(page, "Sums by model, table")
    rows[NONE] = rows.pop("not set")
    assert {
        model: (row["Calls"], row["Tokens in"], row["Tokens out"]) for model, row in rows.items()
    } == {model: shown(sums) for model, sums in EXPECTED.items()}
    links = re.findall(r'<th scope="row"><a href="([^"]+)"><bdi>(.*?) requested</bdi>', page)
    assert len(links) == 2
    for link, model in links:
        listed = (await client.get(link.replace("&amp;", "&"), headers=ann.cookie)).text
        wanted = EXPECTED[f"{model} (requested)"].calls
        assert re.search(rf'class="totals"><strong>{wanted} call', listed)


@pytest.mark.parametrize("query", ["cost_by_model", "cost_by_day_and_model"])
async def test_the_queries(client, ann, query):
    address = f"/traces/{query}.json?_shape=array"
    rows = (await client.get(address, headers=ann.cookie)).json()
    found = {
        row["model"]: Sums(row["calls"], row["prompt_tokens"], row["output_tokens"]) for row in rows
    }
    found[NONE] = found.pop("(none named)")
    assert found == EXPECTED
    maybe = {row["model"]: row["calls_maybe_billed"] for row in rows if row["calls_maybe_billed"]}
    assert maybe == {f"{SONNET} (requested)": 1}


def test_more_calls_than_are_read_stay_under_no_model(ann, stranger, monkeypatch):
    monkeypatch.setattr("store.traces.sums.requested_sums.MAX_CALLS", 1)
    report = stranger.get("/api/usage?by=model", headers=ann.bearer).json()
    found = read_groups(report["groups"])
    assert sum(sums.calls for sums in found.values()) == len(CALLS)
    assert found[NONE].calls == 3
    monkeypatch.setattr("store.traces.sums.requested_sums.MAX_CALLS", 100)
    monkeypatch.setattr("store.traces.sums.requested_sums.MAX_MODELS", 1)
    report = stranger.get("/api/usage?by=model", headers=ann.bearer).json()
    assert read_groups(report["groups"]).keys() == {SONNET, f"{SONNET} (requested)", NONE}
