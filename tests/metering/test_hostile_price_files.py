"""Price files with every kind of mistake: each is one clear error, soon, and never another exception."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from metering.billed_passes import Call
from metering.entry import CostItem
from metering.price_file_error import PriceFileError
from metering.price_format import parse_price_file
from metering.prices import PriceTable
from metering.pricing import price_call
from tests.processor_time import takes_less_than

GOOD = {
    "match": '"claude-x*"', "starts": "2026-01-01", "input": "1", "output": "1", "cache_read": "1",
    "cache_write_5m": "1", "cache_write_1h": "1",
}  # fmt: skip


def write(**changes):
    """A file with one entry, in which these fields are others; None leaves a field out."""
    fields = GOOD | changes
    lines = [f"{name} = {value}" for name, value in fields.items() if value is not None]
    return "\n".join(["[[models]]", *lines])


# Texts in the place of a rate, and of what is said about it.
RATES = [
    *("nan", "-nan", "inf", "-inf", "+inf", "-1", "-0.01", "-1e-5", "1_000_001", "1e7", "1e400", "9e999999"),
    *("1e999999999", "1e999999999999999999999", "1e-13", "1e-400", "1e-999999999", "1e-99999999999999999999"),
    *("0." + "3" * 5000, "9" * 4000, "0x" + "f" * 9000, "0b1" + "0" * 9000, "1." + "0" * 13 + "1"),
    *('"1"', "true", "false", "[]", "[1]", "{}", "{ usd = 1 }", "2026-01-01", "2026-01-01T00:00:00Z", "10:00:00"),
]  # fmt: skip
DAYS = [
    *('"2026-01-01"', "2026", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "2026-01-01 00:00:00", "10:00:00"),
    *("true", "1.5", "[]", "{}", "nan"),
]  # fmt: skip
SYNTAX = [
    *("{{{", "\0", "models", "models =", "[models]\n[[models]]", "a = 1\na = 2", "a.b = 1\na = 2"),
    *("\x1b[2J = 1", "models = [\n", 'x = "', "x = 2026-13-01", "x = 2026-02-30", "x = 99999-01-01", "x = 0_1"),
    *("x = " + "[" * 5000, "x = " + "[" * 2000 + "]" * 2000, "x = " + "{a=" * 3000 + "1" + "}" * 3000),
    *("x = [\n" * 50_000, ".".join("a" * 4000) + " = 1\nx = [\n", "x = 1" + "0" * 5000, "x = 1e" + "9" * 30),
    *("x = '" + "y" * 20_000 + "'", "#" * 20_000, "# x\n" * 300_000, "\ufeff" + write(), "\ud800 = 1"),
]  # fmt: skip
SHAPES = {
    "": "models: must be a list",
    "[[models]": "Expected ']]'",
    "models = 1": "models: must be a list",
    "models = {}": "models: must be a list",
    "models = [1]": r"models\[1\]: must be a table",
    "models = [[]]": r"models\[1\]: must be a table",
    "[models]\nmatch = 'x'": "models: must be a list",
    "checked = 1\nmodels = []": "checked: must be a day",
    "models = []\n'a\\u001b[2J' = 1": "is not a field",
    'models = []\n"a\\u001b[2J\\nPRICES ARE FINE" = 1': r"'a\\x1b\[2J\\nPRICES ARE FINE': is not a field",
    "models = []\n" + "k" * 3000 + " = 1": "is not a field",
    write(match=None): r"models\[1\]: match: must be a text",
    write(match="''"): r"models\[1\]: match: must be a text",
    write(match="[]"): r"models\[1\]: match: must be a text",
    write(match="['a', 1]"): r"models\[1\]: match: must be a text",
    write(match="{ regex = '(a+)+$' }"): r"models\[1\]: match: must be a text",
    write(match=f"'{'*a' * 200}'"): r"models\[1\]: match: .* up to 200 characters",
    write(starts=None): r"models\[1\]: starts: must be a day such as",
    write(ends="2026-01-01"): r"models\[1\]: ends: must be a day after",
    write(ends="0001-01-01"): r"models\[1\]: ends: must be a day after",
    write(source="1"): r"models\[1\]: source: must be a text",
    write(source="''"): r"models\[1\]: source: must be a text",
    write(input=None): r"models\[1\]: input: must be a price",
    write(outptu="1"): r"models\[1\]: outptu: is not a field",
    write(fast="1"): r"models\[1\]: fast: must be a table",
    write(fast="[]"): r"models\[1\]: fast: must be a table",
    write(fast="{}"): r"models\[1\]: fast: input: must be a price",
    write(fast="{ input = nan }"): r"models\[1\]: fast: input: must be a price",
    write(long_prompt="{ above = -1 }"): r"models\[1\]: long_prompt: above: must be a whole",
    write(long_prompt="{ above = 1.5 }"): r"models\[1\]: long_prompt: above: must be a whole",
    write(long_prompt="{ above = true }"): r"models\[1\]: long_prompt: above: must be a whole",
    write(long_prompt="{ above = 1e3 }"): r"models\[1\]: long_prompt: above: must be a whole",
    write() + "\n" + write(input="inf"): r"models\[2\]: input: must be a price",
}


def refusal_of(text):
    with takes_less_than(5), pytest.raises(PriceFileError) as raised:
        parse_price_file(text, "prices.toml")
    said = str(raised.value)
    assert said.startswith("prices.toml: ")
    assert said.isprintable()
    assert len(said) < 500
    return said


@pytest.mark.parametrize("rate", RATES, ids=lambda text: text[:24])
def test_a_rate_that_is_no_price_is_named(rate):
    rates = {name: GOOD[name] for name in list(GOOD)[2:]} | {"output": rate}
    table = ", ".join(f"{name} = {value}" for name, value in rates.items())
    for changes in (
        {"input": rate},
        {"web_search": rate},
        {"fast": f"{{ {table} }}"},
        {"long_prompt": f"{{ above = 9, {table} }}"},
    ):
        said = refusal_of(write(**changes))
        if len(rate) < 4000:  # a longer line is refused before
            assert "models[1]: " in said
            assert "must be a price in US dollars" in said


@pytest.mark.parametrize("day", DAYS)
@pytest.mark.parametrize("place", ["starts", "ends"])
def test_a_day_that_is_none_is_named(day, place):
    assert f"models[1]: {place}: must be a day" in refusal_of(write(**{place: day}))


@pytest.mark.parametrize("text", SYNTAX, ids=lambda text: ascii(text[:24]))
def test_what_is_no_price_file_is_said(text):
    refusal_of(text)


@pytest.mark.parametrize("text", SHAPES, ids=lambda text: ascii(text[-24:]))
def test_what_has_another_shape_is_named(text):
    with pytest.raises(PriceFileError, match=SHAPES[text]):
        parse_price_file(text, "prices.toml")
    refusal_of(text)


@pytest.mark.parametrize(
    "rate", ["0", "0.0", "-0.0", "1e-12", "1_000_000", "1e6", "0.000000000001", "0x10", "1.50"]
)
def test_every_rate_that_is_taken_can_be_computed_with(rate):
    table = PriceTable(parse_price_file(write(input=rate, output=rate), "prices.toml"))
    quantity = 10**12  # more than any call has
    items = tuple(
        CostItem(pass_index=0, model="claude-x", component=name, quantity=quantity, prompt_tokens=1)
        for name in ("input", "output")
    )
    call = Call(
        created_at=datetime(2026, 6, 1, tzinfo=UTC),
        outcome="complete",
        status_code=200,
        usage_source="final",
        model="claude-x",
        service_tier=None,
        speed=None,
        inference_geo=None,
        items=items,
    )
    _, cents = price_call(call, table)
    assert cents is not None
    assert 0 <= cents < Decimal(10) ** 16


@pytest.mark.parametrize(
    "match",
    ["*" * 200, "*a" * 100, "?*" * 100, "[a-z" * 50, "[]-a]*" * 33, "[z-a]", "(a+)+$", "[!" * 99],
)
def test_no_pattern_takes_long_for_any_model(match):
    text = write(match=f"'{match}'")
    table = PriceTable(parse_price_file(text, "prices.toml"))
    with takes_less_than(5):
        for model in ("a" * 10_000, "aB" * 5000, "[" * 5000, "claude-x"):
            table.find_rates(model, datetime(2026, 6, 1, tzinfo=UTC))


def test_the_same_model_twice_is_the_later_entry():
    text = write(input="1") + "\n" + write(input="2")
    table = PriceTable(parse_price_file(text, "prices.toml"))
    rates = table.find_rates("claude-x", datetime(2026, 6, 1, tzinfo=UTC))
    assert rates is not None
    assert rates.of("input") == 2


@pytest.mark.parametrize("starts", ["0001-01-01", "9999-12-31"])
def test_the_ends_of_the_calendar_are_days(starts):
    (entry,) = parse_price_file(write(starts=starts), "prices.toml")
    assert entry.starts.isoformat() == starts
    PriceTable([entry]).find_rates("claude-x", datetime(2026, 6, 1, tzinfo=UTC))
