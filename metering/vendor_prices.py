"""The prices of the ``genai-prices`` package: the third list of ``prices.py``.

The package loads pydantic, so this module is loaded when a price is first looked up that the other lists do
not have.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import cast

import genai_prices
from genai_prices import data_snapshot
from genai_prices.types import ModelPrice, TieredPrices

from metering.components import TOKEN_COMPONENTS, WEB_SEARCH
from metering.price_format import WEB_SEARCH_USD_PER_THOUSAND
from metering.rates import Rates, RateTiers

_PROVIDER = "anthropic"


def list_models() -> Sequence[str]:
    """Return the names of the vendor's models."""
    providers = data_snapshot.get_snapshot().providers
    return [
        model.id for provider in providers if provider.id == _PROVIDER for model in provider.models
    ]


def find_tiers(model: str, day: date, is_fast: bool, label: str) -> RateTiers | None:
    """Return the rates of a model on a day, with ``label`` as their version, or None if unknown."""
    standard = _find_price(model, day)
    price = _find_price(model, day, speed="fast") if is_fast else standard
    # A model without fast rates returns its standard ones, which would be a guess.
    if price is None or (is_fast and price == standard):
        return None
    sizes = {
        tier.start
        for value in vars(price).values()
        if isinstance(value, TieredPrices)
        for tier in value.tiers
    }
    return RateTiers(
        base=_rates(price, 0, label),
        tiers=tuple((size, _rates(price, size + 1, label)) for size in sorted(sizes)),
    )


def _find_price(model: str, day: date, **context: str) -> ModelPrice | None:
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(input_tokens=0),
            model,
            provider_id=_PROVIDER,
            genai_request_timestamp=datetime.combine(day, time(), UTC),
            price_context=context,
        )
    except LookupError:
        return None
    return found.model_price


def _rates(price: ModelPrice, prompt_tokens: int, label: str) -> Rates:
    def rate(name: str | None) -> Decimal | None:
        value = None if name is None else vars(price).get(name)
        if not isinstance(value, TieredPrices):
            return cast(Decimal | None, value)
        reached = [tier.price for tier in value.tiers if prompt_tokens > tier.start]
        return reached[-1] if reached else value.base

    rates = {component.name: rate(component.base_price) for component in TOKEN_COMPONENTS}
    web_search = rate(WEB_SEARCH.base_price) or WEB_SEARCH_USD_PER_THOUSAND
    return Rates(by_component=rates | {WEB_SEARCH.name: web_search}, price_version=label)
