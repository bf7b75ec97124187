from decimal import Decimal

import orjson

from conversations.prompt_bill import read_prompt_bill
from metering.usage import read_usage
from tests.conversations.bills import bill_of


def bill(model="claude-sonnet-4-5", **usage):
    answer = {"model": model, "stop_reason": "end_turn", "usage": {"output_tokens": 9} | usage}
    found = read_usage(200, "application/json", orjson.dumps(answer), is_complete=True)
    return read_prompt_bill(bill_of(found))


def test_each_part_has_its_tokens_and_its_price():
    found = bill(
        input_tokens=10,
        cache_read_input_tokens=1_000,
        cache_creation_input_tokens=300,
        cache_creation={"ephemeral_5m_input_tokens": 200, "ephemeral_1h_input_tokens": 100},
    )
    assert found.tokens._asdict() == {
        "read": 1_000,
        "written_5m": 200,
        "written_1h": 100,
        "uncached": 10,
    }
    # Sonnet 4.5: $0.30, $3.75, $6 and $3 a million tokens
    assert found.price("read", 1_000_000) == Decimal(30)
    assert found.price("written_5m", 1_000_000) == Decimal(375)
    assert found.price("written_1h", 1_000_000) == Decimal(600)
    assert found.price("uncached", 1_000_000) == Decimal(300)


def test_a_price_that_is_not_known_is_none_and_nothing_costs_nothing():
    found = bill("gone-1", input_tokens=10)
    assert found.tokens.uncached == 10
    assert found.price("uncached", 10) is None
    assert found.price("read", 0) == 0


def test_the_first_pass_is_the_one_whose_prompt_is_the_body():
    passes = [
        {"type": "message", "input_tokens": 100, "output_tokens": 5},
        {"type": "message", "input_tokens": 150, "output_tokens": 5},
    ]
    found = bill(input_tokens=250, output_tokens=10, iterations=passes)
    assert (found.tokens.uncached, found.passes, found.is_sum) == (100, 2, False)
