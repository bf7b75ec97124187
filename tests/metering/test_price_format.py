from datetime import UTC, datetime
from decimal import Decimal

import pytest

from metering.components import TOKEN_COMPONENTS, TokenComponent
from metering.price_file_error import PriceFileError
from metering.price_format import parse_price_file
from metering.prices import PriceTable
from tests import ROOT
from tests.metering.amounts import amounts, decimals

NOW = datetime(2026, 11, 20, tzinfo=UTC)
BASE = PriceTable()

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
    return PriceTable(parse_price_file(OVERRIDES, "prices.toml"))


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


ENDING = """
checked = 2026-11-15

[[models]]
match = ["claude-opus-5-5", "claude-opus-6-*"]
starts = 2026-11-01
ends = 2026-11-11
source = "our contract of October"
[models.fast]
input = 7
output = 35
cache_read = 0.35
cache_write_5m = 9
cache_write_1h = 14
[models.fast.long_prompt]
above = 100_000
input = 14
output = 70
cache_read = 0.7
cache_write_5m = 18
cache_write_1h = 28
"""


@pytest.fixture
def ending():
    return PriceTable(parse_price_file(ENDING, "prices.toml"))


def test_an_entry_may_end_and_then_the_lists_behind_it_decide(ending):
    assert amounts(ending.find_rates("claude-opus-5-5", day(10), speed="fast")) == decimals(
        "7 35 0.35 9 14"
    )
    assert ending.find_rates("claude-opus-5-5", day(11), speed="fast") == BASE.find_rates(
        "claude-opus-5-5", NOW, speed="fast"
    )


def test_an_entry_with_fast_rates_alone_leaves_the_others_as_they_are(ending):
    assert ending.find_rates("claude-opus-5-5", day(2)) == BASE.find_rates("claude-opus-5-5", NOW)


def test_an_entry_may_name_several_models(ending):
    assert ending.find_rates("claude-opus-6-20270101", day(2), speed="fast") is not None
    assert ending.find_rates("claude-opus-5", day(2), speed="fast") == BASE.find_rates(
        "claude-opus-5", NOW, speed="fast"
    )


def test_fast_mode_may_have_a_tier_for_long_prompts(ending):
    rates = ending.find_rates("claude-opus-5-5", day(2), speed="fast", prompt_tokens=100_001)
    assert amounts(rates) == decimals("14 70 0.7 18 28")


def test_a_file_that_says_when_it_was_checked_has_that_day_in_its_version(ending):
    rates = ending.find_rates("claude-opus-5-5", day(2), speed="fast")
    assert rates.price_version == "override prices.toml 2026-11-15"


@pytest.fixture
def audio(monkeypatch):
    """A component that price files of before do not have."""
    component = TokenComponent(
        name="audio",
        title="Audio",
        base_price="input_audio_mtok",
        counted_in="input_tokens",
        quantity=lambda billed: billed.tokens.input_tokens,
    )
    monkeypatch.setattr("metering.price_format.TOKEN_COMPONENTS", (*TOKEN_COMPONENTS, component))


@pytest.mark.usefixtures("audio")
def test_a_rate_that_an_older_file_does_not_have_is_unknown():
    older = PriceTable(parse_price_file(OVERRIDES, "prices.toml"))
    rates = older.find_rates("claude-opus-5-5", day(10))
    assert rates is not None
    assert (rates.of("input"), rates.of("audio")) == (Decimal(1), None)
    newer = PriceTable(parse_price_file(f"{OVERRIDES}audio = 7\n", "prices.toml"))
    rates = newer.find_rates("claude-opus-5-5", day(10))
    assert rates is not None
    assert rates.of("audio") == Decimal(7)


def test_the_example_of_the_documentation_is_a_price_file():
    page = (ROOT / "docs" / "prices.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    (override,) = parse_price_file(example, "prices.toml")
    assert override.standard is not None
    assert override.fast is not None
    assert override.standard.tiers


ELSEWHERE = f"""
[[models]]
match = "claude-*"
upstream = ["eu", "foundry"]
starts = 2026-11-01
as_listed = true

[[models]]
match = "claude-opus-5-5"
upstream = "eu"
starts = 2026-11-05
input = 4.4
output = 22
cache_read = 0.22
cache_write_5m = 5.5
cache_write_1h = 8.8
{OVERRIDES}
"""


def test_prices_of_an_upstream_are_those_that_name_it():
    prices = PriceTable(parse_price_file(ELSEWHERE, "prices.toml"))
    assert prices.upstreams == {"eu", "foundry"}

    def find(upstream, number, **options):
        return prices.find_rates("claude-opus-5-5", day(number), upstream=upstream, **options)

    assert find("eu", 6).of("output") == Decimal(22)
    assert find("eu", 6, speed="fast") is None, "an entry without fast rates does not know them"
    assert find("foundry", 6) == find(None, 6), "as listed: the contract of the service's upstream"
    assert find("foundry", 6).of("output") == Decimal(18)
    assert find("foundry", 6, speed="fast") == find(None, 6, speed="fast")
    assert find(None, 6).of("output") == Decimal(18), (
        "the rates of another upstream are not its own"
    )


def test_an_upstream_without_prices_has_none():
    prices = PriceTable(parse_price_file(ELSEWHERE, "prices.toml"))
    assert prices.find_rates("claude-opus-5-5", day(6), upstream="gateway") is None
    assert BASE.find_rates("claude-opus-5-5", day(6), upstream="eu") is None
    before = datetime(2026, 10, 31, tzinfo=UTC)
    assert prices.find_rates("claude-opus-5-5", before, upstream="eu") is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('upstream = ["eu", "foundry"]\n', "", "as_listed: is for an entry with an upstream"),
        ("as_listed = true", "as_listed = 1", "as_listed: must be true or false"),
        ("as_listed = true", "as_listed = true\ninput = 1", "input: is not a field of this table"),
        ("as_listed = true", "as_listed = false", "input: must be a price"),
        ('"foundry"]', "3]", "upstream: must be a text or a list of texts"),
    ],
)
def test_a_wrong_entry_of_an_upstream_is_named(old, new, words):
    with pytest.raises(PriceFileError, match=words):
        parse_price_file(ELSEWHERE.replace(old, new, 1), "prices.toml")
