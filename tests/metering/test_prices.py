from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import genai_prices
import pytest

from metering.components import TOKEN_COMPONENTS, WEB_SEARCH
from metering.price_format import parse_price_file
from metering.prices import BASE_VERSION, PriceTable, read_own_entries
from tests.metering.amounts import amounts, decimals

NOW = datetime(2026, 11, 20, tzinfo=UTC)
BASE = PriceTable()


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
        ("claude-sonnet-4", "3 15 0.30 3.75 6"),
        ("claude-haiku-5-5", "0.10 0.50 0.01 0.125 0.20"),
        ("claude-haiku-4-5", "1 5 0.10 1.25 2"),
        ("claude-haiku-4-5-20251001", "1 5 0.10 1.25 2"),
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


@pytest.mark.parametrize("model", ["gpt-4o", "claude-opus-9", "claude-mythos-5-9", "", "x" * 200])
def test_an_unknown_model_has_no_rates(model):
    assert BASE.find_rates(model, NOW) is None


def test_a_component_without_a_price_is_unknown():
    rates = BASE.find_rates("claude-2.1", NOW)
    assert rates is not None
    assert (rates.of("input"), rates.of("cache_read")) == (Decimal(8), None)


@pytest.mark.parametrize("component", [*TOKEN_COMPONENTS, WEB_SEARCH], ids=lambda each: each.name)
def test_every_component_has_a_rate_of_that_name_in_the_package(component):
    found = genai_prices.calc_price(
        genai_prices.Usage(input_tokens=0), "claude-opus-5", provider_id="anthropic"
    )
    assert isinstance(vars(found.model_price).get(component.base_price), Decimal)


OWN_VERSION = "taximeter prices 2026-11-21"


def at(day: str) -> datetime:
    return datetime.fromisoformat(f"{day}T12:00:00+00:00")


@pytest.mark.parametrize(
    ("model", "day", "options", "row"),
    [
        ("claude-mythos-5", "2026-06-09", {}, "10 50 1 12.50 20"),
        ("claude-mythos-5-20260609", "2026-11-21", {}, "10 50 1 12.50 20"),
        ("claude-mythos-5-1", "2026-09-01", {}, "10 50 0.25 12.50 20"),
        ("claude-sonnet-5-5", "2026-10-06", {}, "2 10 0.20 2.50 4"),
        ("claude-sonnet-4-20250514", "2026-04-30", {}, "3 15 0.30 3.75 6"),
        (
            "claude-sonnet-4-20250514",
            "2026-04-30",
            {"prompt_tokens": 200_001},
            "6 22.50 0.60 7.50 12",
        ),
        ("claude-sonnet-4-5", "2026-11-21", {}, "3 15 0.30 3.75 6"),
        (
            "claude-sonnet-4-5-20250929",
            "2026-05-01",
            {"prompt_tokens": 200_001},
            "3 15 0.30 3.75 6",
        ),
        ("claude-opus-4-6", "2026-02-20", {"speed": "fast"}, "30 150 3 37.50 60"),
        (
            "claude-opus-4-6",
            "2026-02-20",
            {"speed": "fast", "prompt_tokens": 200_001},
            "60 225 6 75 120",
        ),
        (
            "claude-opus-4-6",
            "2026-02-21",
            {"speed": "fast", "prompt_tokens": 200_001},
            "30 150 3 37.50 60",
        ),
        ("claude-opus-4-6", "2026-06-29", {"speed": "fast"}, "30 150 3 37.50 60"),
        ("claude-opus-4-7", "2026-07-24", {"speed": "fast"}, "30 150 3 37.50 60"),
        ("claude-opus-4-8", "2026-11-30", {"speed": "fast"}, "10 50 1 12.50 20"),
    ],
)
def test_our_own_list_has_what_the_package_lacks(model, day, options, row):
    rates = BASE.find_rates(model, at(day), **options)
    assert amounts(rates) == decimals(row)
    assert rates is not None
    assert rates.price_version == OWN_VERSION


@pytest.mark.parametrize(
    ("model", "day", "options", "row"),
    [
        ("claude-sonnet-5-5", "2026-10-07", {}, "2 10 0.10 2.50 4"),
        (
            "claude-sonnet-4-5-20250929",
            "2026-04-30",
            {"prompt_tokens": 200_001},
            "6 22.50 0.60 7.50 12",
        ),
        ("claude-opus-4-6", "2026-02-20", {"prompt_tokens": 200_001}, "10 37.50 1 12.50 20"),
        ("claude-opus-4-7", "2026-06-01", {}, "5 25 0.50 6.25 10"),
        ("claude-sonnet-4-20250514", "2026-05-01", {"prompt_tokens": 200_001}, "3 15 0.30 3.75 6"),
    ],
)
def test_where_our_own_list_says_nothing_the_package_does(model, day, options, row):
    rates = BASE.find_rates(model, at(day), **options)
    assert amounts(rates) == decimals(row)
    assert rates is not None
    assert rates.price_version == BASE_VERSION


@pytest.mark.parametrize(
    ("model", "day"),
    [("claude-opus-4-6", "2026-06-30"), ("claude-opus-4-7", "2026-07-25")],
)
def test_a_fast_mode_that_was_removed_has_no_rates_from_then_on(model, day):
    assert BASE.find_rates(model, at(day), speed="fast") is None


def test_a_model_has_no_rates_before_there_was_one():
    assert BASE.find_rates("claude-mythos-5-1", at("2026-08-31")) is None


def test_each_entry_of_our_own_list_names_its_source():
    assert all("https://" in (entry.source or "") for entry in read_own_entries())


def test_the_operators_file_comes_before_our_own_list():
    text = """
    [[models]]
    match = "claude-mythos-*"
    starts = 2026-10-01
    input = 7
    output = 35
    cache_read = 0.7
    cache_write_5m = 8.75
    cache_write_1h = 14
    """
    prices = PriceTable(parse_price_file(text, "prices.toml"))
    assert amounts(prices.find_rates("claude-mythos-5", NOW)) == decimals("7 35 0.7 8.75 14")
    before = prices.find_rates("claude-mythos-5", at("2026-09-30"))
    assert amounts(before) == decimals("10 50 1 12.50 20")
