from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from metering.billed_passes import Call, make_call
from metering.entry import CostItem
from metering.prices import BASE_VERSION, PriceTable
from metering.pricing import BATCH, US, Bill, find_factor, price_call
from metering.rates import RateTiers
from metering.token_counts import TokenCounts
from metering.usage import Pass, Usage

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PRICES = PriceTable()
MILLION = 1_000_000


def tokens(
    input: int | None = 0,
    output: int | None = 0,
    read: int | None = None,
    write_5m: int = 0,
    write_1h: int = 0,
) -> Pass:
    counts = TokenCounts(
        input_tokens=input,
        output_tokens=output,
        cache_read_input_tokens=read,
        cache_creation_input_tokens=write_5m + write_1h,
    )
    return Pass(type="message", model=None, tokens=counts, cache_write_1h_tokens=write_1h)


def usage(counts: Pass, model: str | None = "claude-opus-5", **fields: object) -> Usage:
    values = {
        "streamed": True,
        "source": "final",
        "model": model,
        "tokens": counts.tokens,
        "cache_write_1h_tokens": counts.cache_write_1h_tokens,
    } | fields
    return Usage(**values)  # type: ignore[arg-type]  # a table of tests says what it likes


def call_of(usage: Usage, at: datetime = NOW, status_code: int = 200) -> Call:
    return make_call(usage, created_at=at, outcome="complete", status_code=status_code)


def price_usage(usage: Usage, at: datetime, prices: PriceTable) -> Bill:
    return price_call(call_of(usage, at), prices)


def cost(counts: Pass, model: str | None = "claude-opus-5", **fields: object):
    return price_usage(usage(counts, model, **fields), NOW, PRICES)[1]


@pytest.mark.parametrize(
    ("counts", "cents"),
    [
        (tokens(input=MILLION), "500"),
        (tokens(output=MILLION), "2500"),
        (tokens(read=MILLION), "50"),
        (tokens(write_5m=MILLION), "625"),
        (tokens(write_1h=MILLION), "1000"),
        (tokens(input=1), "0.0005"),
        (tokens(input=3, output=7, read=11, write_5m=13, write_1h=17), "0.044675"),
    ],
)
def test_each_component_has_its_rate(counts, cents):
    assert cost(counts) == Decimal(cents)


def test_an_item_explains_itself():
    items, total = price_usage(
        usage(tokens(input=1000, read=500), service_tier="batch", inference_geo="us"), NOW, PRICES
    )
    assert items[0] == CostItem(
        pass_index=0,
        model="claude-opus-5",
        component="input",
        quantity=1000,
        prompt_tokens=1500,
        rate_usd=Decimal(5),
        multiplier=Decimal("0.55"),
        price_version=BASE_VERSION,
        cents=Decimal("0.275"),
    )
    assert [item.component for item in items] == ["input", "cache_read"]
    assert total == Decimal("0.28875")


@pytest.mark.parametrize(
    ("fields", "cents"),
    [
        ({"service_tier": "batch"}, "250"),
        ({"service_tier": "standard"}, "500"),
        ({"service_tier": "priority"}, "500"),
        ({"speed": "fast"}, "1000"),
        ({"speed": "standard"}, "500"),
        ({"speed": "fast", "service_tier": "batch"}, "250"),
        ({"inference_geo": "us"}, "550"),
        ({"inference_geo": "US"}, "550"),
        ({"inference_geo": "global"}, "500"),
        ({"inference_geo": "not_available"}, "500"),
        ({"inference_geo": "us", "speed": "fast"}, "1100"),
        ({"inference_geo": "us", "service_tier": "batch"}, "275"),
    ],
)
def test_the_modifiers_of_the_call_apply(fields, cents):
    assert cost(tokens(input=MILLION), **fields) == Decimal(cents)


@pytest.mark.parametrize(
    ("model", "cents"),
    [
        ("claude-opus-4-6", "550"),
        ("claude-opus-4-8", "550"),
        ("claude-sonnet-4.6", "330"),
        ("claude-4.6-opus", "550"),
        ("claude-haiku-5-5-20261001", "55"),
        ("claude-sonnet-5@20260101", "220"),
        ("claude-opus-4-5-20251101", "500"),
        ("claude-haiku-4-5", "100"),
        ("claude-sonnet-4-20250514", "300"),
        ("claude-3-5-haiku-20241022", "80"),
    ],
)
def test_the_us_costs_more_from_4_6_on(model, cents):
    assert cost(tokens(input=MILLION), model, inference_geo="us") == Decimal(cents)


@pytest.mark.parametrize(
    ("fields", "at", "multiplier"),
    [
        ({"service_tier": "batch"}, datetime(2024, 10, 7, tzinfo=UTC), "1"),
        ({"service_tier": "batch"}, datetime(2024, 10, 8, tzinfo=UTC), "0.5"),
        ({"inference_geo": "us"}, datetime(2026, 2, 4, tzinfo=UTC), "1"),
        ({"inference_geo": "us"}, datetime(2026, 2, 5, tzinfo=UTC), "1.1"),
    ],
)
def test_a_multiplier_applies_from_its_day_on(fields, at, multiplier):
    table = BATCH if "service_tier" in fields else US
    assert find_factor(table, "claude-opus-4-6", at) == Decimal(multiplier)


def test_the_us_multiplies_every_kind_of_token_and_no_search():
    items, _ = price_usage(
        usage(tokens(1, 1, 1, 1, 1), inference_geo="us", web_search_requests=1), NOW, PRICES
    )
    assert [item.multiplier for item in items] == [Decimal("1.1")] * 5 + [Decimal(1)]


@pytest.mark.parametrize("fields", [{}, {"service_tier": "batch"}, {"speed": "fast"}])
def test_a_web_search_is_a_cent_whatever_else_applies(fields):
    items, total = price_usage(usage(tokens(input=0), web_search_requests=3, **fields), NOW, PRICES)
    assert [(item.component, item.cents) for item in items] == [("web_search", Decimal(3))]
    assert total == Decimal(3)


@pytest.mark.parametrize(
    ("counts", "cents"),
    [
        (tokens(input=100_000), "1"),
        (tokens(input=100_001), "5.00005"),
        (tokens(input=1, read=60_000, write_5m=20_000, write_1h=20_000), "3.55005"),
        (tokens(input=1, read=100_000, output=1_000_000), "250.50005"),
    ],
)
def test_the_whole_prompt_decides_the_tier_of_all_tokens(counts, cents):
    assert cost(counts, "claude-haiku-5-5") == Decimal(cents)


def iteration(type: str, counts: Pass, model: str | None = None) -> Pass:
    return replace(counts, type=type, model=model)


def test_iterations_are_summed_instead_of_the_top_level():
    passes = (
        iteration("compaction", tokens(input=60_385, output=522)),
        iteration("message", tokens(input=612, output=2_819)),
    )
    top = tokens(input=612, output=2_819)
    items, total = price_usage(usage(top, "claude-opus-4-6", passes=passes), NOW, PRICES)
    assert [(item.pass_index, item.component, item.quantity) for item in items] == [
        (0, "input", 60_385),
        (0, "output", 522),
        (1, "input", 612),
        (1, "output", 2_819),
    ]
    assert total == Decimal("31.4975") + Decimal("7.3535")


def test_each_pass_has_its_own_model_and_tier():
    passes = (
        iteration("message", tokens(input=90_000), None),
        iteration("advisor_message", tokens(input=1_000_000), "claude-opus-4-8"),
        iteration("message", tokens(input=110_000), None),
    )
    top = tokens(input=200_000)
    items, total = price_usage(usage(top, "claude-haiku-5-5", passes=passes), NOW, PRICES)
    assert [item.cents for item in items] == [Decimal("0.9"), Decimal(500), Decimal("5.5")]
    assert total == Decimal("506.4")


def test_search_and_geography_come_from_the_top_level_of_a_call_with_passes():
    passes = (
        iteration("advisor_message", tokens(input=MILLION), "claude-opus-4-5"),
        iteration("message", tokens(input=MILLION)),
    )
    found = cost(tokens(input=MILLION), passes=passes, web_search_requests=2, inference_geo="us")
    assert found == Decimal(500) + Decimal(550) + Decimal(2)


def test_an_unknown_model_has_items_without_rates_and_no_cost():
    items, total = price_usage(usage(tokens(5, 6), "claude-opus-9"), NOW, PRICES)
    assert total is None
    assert [(item.component, item.quantity, item.rate_usd, item.cents) for item in items] == [
        ("input", 5, None, None),
        ("output", 6, None, None),
    ]
    assert {item.multiplier for item in items} == {item.price_version for item in items} == {None}


def test_one_unknown_pass_makes_the_whole_cost_unknown():
    passes = (
        iteration("message", tokens(input=1)),
        iteration("advisor_message", tokens(input=1), "claude-opus-9"),
    )
    items, total = price_usage(usage(tokens(input=1), passes=passes), NOW, PRICES)
    assert total is None
    assert [item.cents for item in items] == [Decimal("0.0005"), None]


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (None, {}),
        ("claude-opus-4-7", {"speed": "fast"}),
        ("claude-2.1", {"counts": tokens(read=1)}),
    ],
)
def test_a_rate_that_is_not_known_is_not_guessed(model, fields):
    assert cost(**({"counts": tokens(input=1)} | fields), model=model) is None


def test_an_answer_without_usage_has_no_items_and_no_cost():
    assert price_usage(usage(tokens(), source="none"), NOW, PRICES) == ((), None)


@pytest.mark.parametrize(("model", "total"), [("claude-opus-5", Decimal(0)), ("what", None)])
def test_zero_tokens_make_no_item_and_cost_nothing_where_the_price_is_known(model, total):
    assert price_usage(usage(tokens(0, 0, 0), model), NOW, PRICES) == ((), total)


def test_a_partial_answer_costs_what_was_counted():
    assert cost(tokens(input=MILLION, output=1), source="partial") == Decimal("500.0025")


def test_repricing_fills_in_what_was_unknown():
    call = usage(tokens(5, 6, 7, 8, 9), "claude-opus-5", web_search_requests=1, speed="fast")
    items, total = price_usage(call, NOW, PRICES)
    bare = tuple(
        item._replace(rate_usd=None, multiplier=None, price_version=None, cents=None)
        for item in items
    )
    assert price_call(replace(call_of(call), items=bare), PRICES) == (items, total)


class NoPrices(PriceTable):
    def _find_tiers(
        self, model: str, day: object, is_fast: bool, upstream: str | None
    ) -> RateTiers | None:
        return None


def test_repricing_forgets_rates_that_are_known_no_more():
    call = call_of(usage(tokens(input=5)))
    items, _ = price_call(call, PRICES)
    (item,), total = price_call(replace(call, items=items), NoPrices())
    assert (item.quantity, item.rate_usd, item.price_version, total) == (5, None, None, None)


def test_repricing_uses_the_tier_of_the_stored_prompt():
    call = call_of(usage(tokens(1, 1, 150_000), "claude-haiku-5-5"))
    items, total = price_call(call, PRICES)
    assert price_call(replace(call, items=items), PRICES) == (items, total)
    assert total == Decimal("0.7503")
