"""The same calls with another model, as a page and as JSON."""

import re
from decimal import Decimal

import pytest

from runtime import clock
from tests.dashboard.pages import Page, words_of

# By the list: 5 and 25 dollars of a million with Opus 4.5, a fifth of that with Haiku 4.5.
TOKENS = {
    "input_tokens": 200_000,
    "output_tokens": 20_000,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
}
CALL = {"model": "claude-opus-4-5", "cost_cents": Decimal(150), **TOKENS}


def find_cost(costs, model):
    return next(each["cost_cents"] for each in costs if each["model"] == model)


@pytest.fixture
def now():
    return clock.format_ms(clock.now())


def test_the_sums_of_a_period_are_priced_with_another_model(ann, now):
    ann.record(CALL, CALL, created_at=now)
    found = ann.get("/savings/models.json?period=today").json()
    assert found["cost_cents"] == 300
    (opus,) = found["models"]
    assert (opus["model"], opus["calls"], opus["cost_cents"]) == ("claude-opus-4-5", 2, 300)
    (haiku,) = [e["model"] for e in opus["others"] if e["model"].startswith("claude-haiku")]
    assert find_cost(opus["others"], haiku) == find_cost(found["with_models"], haiku) < 300
    assert find_cost(found["with_models"], "claude-opus-4-5") == 300
    assert "list prices" in found["method"]


def test_cheaper_models_that_were_used_are_compared_exactly(ann, now):
    ann.record(
        CALL, CALL | {"model": "claude-haiku-4-5", "cost_cents": Decimal(30)}, created_at=now
    )
    found = ann.get("/savings/models.json?period=today").json()
    assert find_cost(found["models"][0]["others"], "claude-haiku-4-5") == 30
    assert find_cost(found["models"][1]["others"], "claude-opus-4-5") == 150
    assert find_cost(found["with_models"], "claude-haiku-4-5") == 60
    assert find_cost(found["with_models"], "claude-opus-4-5") == 300


def test_a_filter_or_a_session_leaves_the_others_out(ann, now):
    ann.record(
        CALL | {"session_id": "s1", "slug": "one"}, CALL | {"slug": "two"}, CALL, created_at=now
    )
    for choice in ("endpoint=one", "session=s1"):
        found = ann.get(f"/savings/models.json?period=today&{choice}").json()
        assert found["cost_cents"] == 150
        assert [each["calls"] for each in found["models"]] == [1]
    assert found["session"] == "s1"
    assert ann.get("/savings/models.json?session=another").json()["models"] == []


def test_calls_without_a_known_price_have_no_cost_with_others(ann, now):
    ann.record(CALL | {"model": "a-model-of-my-own", "cost_cents": None}, CALL, created_at=now)
    found = ann.get("/savings/models.json?period=today").json()
    assert found["models"][1]["others"] == []
    assert find_cost(found["with_models"], "claude-opus-4-5") == 150, (
        "as in the cost it is set against"
    )


def test_what_is_in_no_sums_is_refused(ann):
    ann.record()
    for choice in ("agent=a", "tag.project=a", "tag.env=a", "session=s1&model=x", "period=never"):
        assert ann.get(f"/savings/models.json?{choice}").status_code == 400


def test_the_page_has_the_same_costs_and_says_what_they_leave_out(ann, now):
    ann.record(
        CALL, CALL | {"model": "claude-haiku-4-5", "cost_cents": Decimal(30)}, created_at=now
    )
    page = words_of(ann.get("/savings/models?period=today").text)
    assert "cost $1.80" in page
    assert re.search(r"The same tokens with \S+ alone: \$[\d.]+ ?, .\d+ %", page)
    assert "All 2 $1.80" in page
    assert " $0.60 " in page.partition("All 2 $1.80")[2], "all of it with Haiku 4.5"
    assert "opus-4-5 1 $1.50" in page
    assert "Another model would have written other responses" in page
    assert "No calls here" in ann.get("/savings/models?period=today&endpoint=none").text
    text = ann.get("/savings/models?session=s1").text
    assert "No calls here" in text
    ann.record(CALL | {"title_text": "Mend the test"}, session_id="s2", created_at=now)
    assert "The calls of Mend the test cost" in words_of(ann.get("/savings/models?session=s2").text)


def test_the_page_is_a_tab_beside_findings_and_tools(ann, now):
    ann.record(CALL, created_at=now)
    tabs = [
        (
            each.text.split("$")[0].strip(),
            each.attributes["href"],
            "aria-current" in each.attributes,
        )
        for each in Page(ann.get("/savings/models").text).find("a")
        if each.is_within("nav") and "period=7d" in each.attributes["href"]
    ]
    assert tabs[:3] == [
        ("Findings", "/savings?period=7d", False),
        ("Tools", "/tools?period=7d", False),
        ("Another model", "/savings/models?period=7d", True),
    ]
