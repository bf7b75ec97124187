"""Each model that the installed SDK names has a price, or is listed here with the reason."""

from datetime import UTC, datetime
from typing import Literal, get_args, get_origin

import pytest

from metering.prices import PriceTable

pytestmark = pytest.mark.slow  # to import the SDK

# A new SDK brings new models, and the test of what is missing fails. Then look the price up and add it
# to metering/prices.toml with its source (docs/prices.md has the format). If there is no public
# price, list the model here with the reason.
WITHOUT_PRICE = {
    "claude-mythos-preview": "for invited organisations, retired on 2026-06-30: 25 USD of input and"
    " 125 USD of output were announced, rates of cache reads and writes were not",
}
PRICES = PriceTable()
NOW = datetime.now(UTC)  # of today, because a model has no price before its launch


@pytest.fixture(scope="module")
def models():
    from anthropic.types import Model  # takes a second and a half, which is spared other tests

    return [
        name
        for option in get_args(Model)
        if get_origin(option) is Literal
        for name in get_args(option)
    ]


def test_each_model_of_the_sdk_has_a_price_or_a_reason_for_having_none(models):
    assert "claude-opus-5-5" in models
    unpriced = [model for model in models if PRICES.find_rates(model, NOW) is None]
    assert unpriced == list(WITHOUT_PRICE)


def test_a_model_with_a_price_has_a_rate_for_every_component(models, subtests):
    for model in set(models) - set(WITHOUT_PRICE):
        with subtests.test(model=model):
            rates = PRICES.find_rates(model, NOW)
            assert rates is not None
            assert [name for name, rate in rates.by_component.items() if rate is None] == []
