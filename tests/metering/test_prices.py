from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import genai_prices
import pytest

from metering.components import TOKEN_COMPONENTS, TokenComponent
from metering.prices import BASE_VERSION, PriceFileError, PriceTable, Rates, parse_overrides
from tests import ROOT

NOW = datetime(2026, 11, 20, tzinfo=UTC)
BASE = PriceTable()


def amounts(rates: Rates | None) -> list[Decimal | None] | None:
    if rates is None:
        return None
    return [
        rates.of("input"),
        rates.of("output"),
        rates.of("cache_read"),
        rates.of("cache_write_5m"),
        rates.of("cache_write_1h"),
    ]


def decimals(text: str) -> list[Decimal]:
    return [Decimal(word) for word in text.split()]


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("claude-fable-5-2", "8 40 0.20 10 16"),
        ("claude-mythos-5-2", "8 40 0.20 10 16"),
        ("claude-fable-5-1", "10 50 0.25 12.50 20"),
        ("claude-fable-5", "10 50 1 12.50 20"),
        ("claude-opus-5-5", "4 20 0.20 5 8"),
        ("claude-opus-5", "5 25 0.50 6.25 10"),
        ("claude-opus-4-8", "5 25 0.50 6.25 10"),
        ("claude-opus-4-7", "5 25 0.50 6.25 10"),
        ("claude-opus-4-6", "5 25 0.50 6.25 10"),
        ("claude-opus-4-5", "5 25 0.50 6.25 10"),
        ("claude-opus-4-1", "15 75 1.50 18.75 30"),
        ("claude-opus-4", "15 75 1.50 18.75 30"),
        ("claude-sonnet-5-5", "2 10 0.10 2.50 4"),
        ("claude-sonnet-5", "2 10 0.20 2.50 4"),
        ("claude-sonnet-4-6", "3 15 0.30 3.75 6"),
        ("claude-sonnet-4-5", "3 15 0.30 3.75 6"),
        ("claude-sonnet-4", "3 15 0.30 3.75 6"),
        ("claude-haiku-5-5", "0.10 0.50 0.01 0.125 0.20"),
        ("claude-haiku-4-5", "1 5 0.10 1.25 2"),
        ("claude-haiku-4-5-20251001", "1 5 0.10 1.25 2"),
        ("claude-sonnet-4-5-20250929", "3 15 0.30 3.75 6"),
        ("claude-sonnet-4-20250514", "3 15 0.30 3.75 6"),
    ],
)
def test_the_list_prices_are_those_published(model, row):
    rates = BASE.find_rates(model, NOW)
    assert amounts(rates) == decimals(row)
    assert rates is not None
    assert rates.of("web_search") == Decimal(10)
    assert rates.price_version == BASE_VERSION == f"genai-prices {genai_prices.__version__}"


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("claude-fable-5-2", "16 80 0.40 20 32"),
        ("claude-mythos-5-2", "16 80 0.40 20 32"),
        ("claude-opus-5-5", "8 40 0.40 10 16"),
        ("claude-opus-5", "10 50 1 12.50 20"),
        ("claude-opus-4-8", "10 50 1 12.50 20"),
    ],
)
def test_fast_has_list_prices_of_its_own(model, row):
    assert amounts(BASE.find_rates(model, NOW, speed="fast")) == decimals(row)


@pytest.mark.parametrize("model", ["claude-fable-5-1", "claude-opus-4-7", "claude-sonnet-5-5"])
def test_fast_rates_that_are_not_known_are_not_guessed(model):
    assert BASE.find_rates(model, NOW, speed="fast") is None
    assert BASE.find_rates(model, NOW, speed="standard") is not None


BEFORE, SINCE = datetime(2026, 3, 12, 23, 59, tzinfo=UTC), datetime(2026, 3, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("model", "at", "prompt_tokens", "row"),
    [
        ("claude-haiku-5-5", NOW, 100_000, "0.10 0.50 0.01 0.125 0.20"),
        ("claude-haiku-5-5", NOW, 100_001, "0.50 2.50 0.05 0.625 1.00"),
        ("claude-opus-4-6", BEFORE, 200_000, "5 25 0.50 6.25 10"),
        ("claude-opus-4-6", BEFORE, 200_001, "10 37.50 1 12.50 20"),
        ("claude-opus-4-6", SINCE, 200_001, "5 25 0.50 6.25 10"),
        ("claude-sonnet-4-6", BEFORE, 200_001, "6 22.50 0.60 7.50 12"),
        ("claude-sonnet-4-6", SINCE, 200_001, "3 15 0.30 3.75 6"),
        ("claude-sonnet-4-5", BEFORE, 200_000, "3 15 0.30 3.75 6"),
        ("claude-sonnet-4-5", BEFORE, 200_001, "6 22.50 0.60 7.50 12"),
        ("claude-opus-5", NOW, 900_000, "5 25 0.50 6.25 10"),
    ],
)
def test_a_long_prompt_pays_the_tier_of_its_day(model, at, prompt_tokens, row):
    assert amounts(BASE.find_rates(model, at, prompt_tokens=prompt_tokens)) == decimals(row)


def test_the_day_of_a_price_is_that_in_utc():
    at = datetime(2026, 3, 13, 1, 0, tzinfo=timezone(timedelta(hours=5)))
    assert amounts(BASE.find_rates("claude-opus-4-6", at, prompt_tokens=300_000)) == decimals(
        "10 37.50 1 12.50 20"
    )


@pytest.mark.parametrize("model", ["gpt-4o", "claude-opus-9", "claude-mythos-5", "", "x" * 200])
def test_an_unknown_model_has_no_rates(model):
    assert BASE.find_rates(model, NOW) is None


def test_a_component_without_a_price_is_unknown():
    rates = BASE.find_rates("claude-2.1", NOW)
    assert rates is not None
    assert (rates.of("input"), rates.of("cache_read")) == (Decimal(8), None)


OVERRIDES = """
[[models]]
match = "claude-opus-5-5*"
starts = 2026-11-01
input = 3.6
output = 18
cache_read = 0.18
cache_write_5m = 4.5
cache_write_1h = 7.2
web_search = 9
fast = { input = 7, output = 35, cache_read = 0.35, cache_write_5m = 9, cache_write_1h = 14 }
[models.long_prompt]
above = 150_000
input = 7.2
output = 27
cache_read = 0.36
cache_write_5m = 9
cache_write_1h = 14.4

[[models]]
match = "claude-opus-5-5"
starts = 2026-11-10
input = 1
output = 2
cache_read = 0.1
cache_write_5m = 1.25
cache_write_1h = 2
"""


@pytest.fixture
def prices():
    return PriceTable(parse_overrides(OVERRIDES, "prices.toml"))


def day(number: int) -> datetime:
    return datetime(2026, 11, number, tzinfo=UTC)


def test_before_its_start_an_override_changes_nothing(prices):
    rates = prices.find_rates("claude-opus-5-5", datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC))
    assert rates == BASE.find_rates("claude-opus-5-5", NOW)


def test_an_override_rules_from_its_start(prices):
    rates = prices.find_rates("claude-opus-5-5-20261001", day(1))
    assert amounts(rates) == decimals("3.6 18 0.18 4.5 7.2")
    assert rates.of("web_search") == Decimal(9)
    assert rates.price_version == "override prices.toml 2026-11-01"


def test_the_override_that_started_last_holds(prices):
    rates = prices.find_rates("claude-opus-5-5", day(10))
    assert (rates.of("input"), rates.of("web_search")) == (Decimal(1), Decimal(10))
    assert prices.find_rates("claude-opus-5-5", day(9)).of("input") == Decimal("3.6")


def test_an_override_has_its_own_tier_and_fast_rates(prices):
    def find(**options):
        return amounts(prices.find_rates("claude-opus-5-5", day(2), **options))

    assert find(prompt_tokens=150_001) == decimals("7.2 27 0.36 9 14.4")
    assert find(prompt_tokens=150_001, speed="fast") == decimals("7 35 0.35 9 14")


def test_an_override_without_fast_rates_has_none(prices):
    assert prices.find_rates("claude-opus-5-5", day(10), speed="fast") is None


def test_other_models_keep_the_base(prices):
    assert prices.find_rates("claude-opus-5", NOW) == BASE.find_rates("claude-opus-5", NOW)


@pytest.fixture
def audio(monkeypatch):
    """A component that price files of before do not have."""
    component = TokenComponent(
        name="audio",
        title="Audio",
        base_price="input_audio_mtok",
        quantity=lambda billed: billed.tokens.input_tokens,
    )
    monkeypatch.setattr("metering.prices.TOKEN_COMPONENTS", (*TOKEN_COMPONENTS, component))


@pytest.mark.usefixtures("audio")
def test_a_rate_that_an_older_file_does_not_have_is_unknown():
    older = PriceTable(parse_overrides(OVERRIDES, "prices.toml"))
    rates = older.find_rates("claude-opus-5-5", day(10))
    assert rates is not None
    assert (rates.of("input"), rates.of("audio")) == (Decimal(1), None)
    newer = PriceTable(parse_overrides(f"{OVERRIDES}audio = 7\n", "prices.toml"))
    rates = newer.find_rates("claude-opus-5-5", day(10))
    assert rates is not None
    assert rates.of("audio") == Decimal(7)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("output = 18\n", "", "models[1]: output: must be a price in US dollars, 0 or more"),
        ("input = 3.6", 'input = "3.6"', "models[1]: input: must be a price"),
        ("input = 3.6", "input = -1", "models[1]: input: must be a price"),
        ("input = 3.6", "input = true", "models[1]: input: must be a price"),
        ("input = 3.6", "input = nan", "models[1]: input: must be a price"),
        ("starts = 2026-11-10", 'starts = "2026"', "models[2]: starts: must be a day such as"),
        ("starts = 2026-11-10\n", "", "models[2]: starts: must be a day such as"),
        ("2026-11-10", "2026-11-10T00:00:00Z", "models[2]: starts: must be a day such as"),
        ('match = "claude-opus-5-5"', "match = 5", "models[2]: match: must be a text"),
        ("above = 150_000", "above = 1.5", "models[1]: long_prompt: above: must be a whole"),
        ("cache_write_1h = 14 }", "x = 1 }", "models[1]: fast: cache_write_1h: must be a price"),
        ("web_search = 9", "web_serach = 9", "models[1]: web_serach: is not a field"),
        ("fast = { input = 7, ", "fast = { inptu = 7, ", "models[1]: fast: input: must be"),
        (OVERRIDES, "models = 3", "models: must be a list"),
        (OVERRIDES, "models = [3]", "models[1]: must be a table"),
        (OVERRIDES, "", "models: must be a list"),
        (OVERRIDES, "model = []", "model: is not a field"),
        (OVERRIDES, "[[models]", "Expected ']]'"),
    ],
)
def test_a_bad_file_is_refused_with_its_name_and_the_field(old, new, complaint):
    with pytest.raises(PriceFileError) as raised:
        parse_overrides(OVERRIDES.replace(old, new, 1), "prices.toml")
    assert str(raised.value).startswith(f"prices.toml: {complaint}")


def test_the_example_of_the_documentation_is_a_price_file():
    page = (ROOT / "docs" / "prices.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    (override,) = parse_overrides(example, "prices.toml")
    assert override.fast is not None
    assert override.standard.tiers
