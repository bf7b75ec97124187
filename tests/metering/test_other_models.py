"""Calls as they would have cost with another model."""

from datetime import UTC, datetime

import pytest

from metering.other_models import ModelUse, list_candidates, price_with, suggest
from metering.prices import PriceTable

AT = datetime(2026, 11, 20, tzinfo=UTC)
PRICES = PriceTable()
# 5, 25, 0.50, 6.25 and 10 dollars of a million with Opus 4.5; a fifth of it with Haiku 4.5.
TOKENS = {
    "input": 100_000,
    "cache_read": 1_000_000,
    "cache_write_5m": 40_000,
    "cache_write_1h": 20_000,
    "output": 60_000,
}
OPUS_CENTS = 50 + 50 + 25 + 20 + 150


def use(model="claude-opus-4-5", cents=float(OPUS_CENTS), tokens=TOKENS, **changes):
    return ModelUse(model=model, calls=3, cents=cents, tokens=tokens, **changes)


def test_the_tokens_of_each_rate_are_priced_with_the_other_model():
    assert price_with(use(), "claude-haiku-4-5", PRICES, AT) == pytest.approx(OPUS_CENTS / 5)
    assert price_with(use(), "claude-opus-4-5", PRICES, AT) == pytest.approx(OPUS_CENTS)


def test_a_discount_stays_a_discount():
    half = use(cents=OPUS_CENTS / 2)
    assert price_with(half, "claude-haiku-4-5", PRICES, AT) == pytest.approx(OPUS_CENTS / 10)


def test_web_searches_cost_the_same_with_each_model():
    searched = use(cents=OPUS_CENTS + 7.0, searches=7)
    assert price_with(searched, "claude-haiku-4-5", PRICES, AT) == pytest.approx(OPUS_CENTS / 5 + 7)


@pytest.mark.parametrize(
    ("use_of_unknown", "other"),
    [
        (use("a-model-of-my-own"), "claude-haiku-4-5"),
        (use(), "a-model-of-my-own"),
        (use(unpriced_tokens=5), "claude-haiku-4-5"),
    ],
)
def test_what_is_not_known_has_no_cost(use_of_unknown, other):
    assert price_with(use_of_unknown, other, PRICES, AT) is None


def test_candidates_are_used_models_and_the_newest_of_each_family():
    found = list_candidates({"claude-opus-4-5", "a-model-of-my-own"}, PRICES, AT)
    assert "claude-opus-4-5" in found
    assert "a-model-of-my-own" not in found
    families = {name.split("-")[1] for name in found}
    assert {"opus", "sonnet", "haiku"} <= families
    haikus = [name for name in found if "haiku" in name]
    assert len(haikus) == 1
    assert haikus != ["claude-haiku-4-5"], "there is a newer one"
    assert found.index("claude-opus-4-5") < found.index(haikus[0])


def test_the_next_cheaper_model_that_is_used_already_is_suggested():
    uses = [
        use(),
        use("claude-sonnet-4-5", cents=200.0),
        use("claude-haiku-4-5", cents=1.0),
    ]
    found = [(each.model, each.other) for each in suggest(uses, PRICES, AT, 2)]
    assert found == [
        ("claude-opus-4-5", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5", "claude-haiku-4-5"),
    ]


def test_what_would_save_next_to_nothing_is_not_suggested():
    uses = [use(cents=10_000.0), use("claude-sonnet-4-5", cents=1.0)]
    assert [each.model for each in suggest(uses, PRICES, AT, 5)] == ["claude-opus-4-5"]
