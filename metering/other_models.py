"""The cost that the tokens of calls would have had with another model.

The sums of calls have the tokens of each rate, but not the size of each prompt, speed or discounts.
So the cost of calls is scaled by the ratio of the list prices of their tokens: a discount stays a
discount. Another model would have answered differently, and its tokenizer may count differently."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from metering.components import INPUT, OUTPUT, SEARCH_UNIT, TOKEN_UNIT
from metering.model_names import find_version
from metering.price_format import WEB_SEARCH_USD_PER_THOUSAND
from metering.rates import Rates

_FAMILY = re.compile(r"claude-([a-z]+)-\d")
_LEAST_CHANGE = 0.01  # a smaller share of the cost is not worth a line
_CENTS_PER_DOLLAR = 100


class Prices(Protocol):
    """The part of the price table used here, which takes a while to load (``metering.prices``)."""

    def find_rates(self, model: str, at: datetime) -> Rates | None: ...
    def list_models(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """The use of one model: its calls, their cost in US cents, and tokens by component.

    ``searches`` are web searches, which cost the same with each model. ``unpriced_tokens`` are tokens
    of unknown cost."""

    model: str
    calls: int
    cents: float
    tokens: Mapping[str, int]
    searches: int = 0
    unpriced_tokens: int = 0

    @property
    def search_cents(self) -> float:
        """Return the part of the cost for web searches in cents, at their list price."""
        dollars = WEB_SEARCH_USD_PER_THOUSAND * self.searches / SEARCH_UNIT
        return min(self.cents, float(dollars) * _CENTS_PER_DOLLAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The cost in US cents of the calls of ``model`` as they were, and with ``other`` instead."""

    model: str
    other: str
    cents: float
    other_cents: float

    @property
    def saved_cents(self) -> float:
        """Return the cents that ``other`` would have saved; negative if it would have cost more."""
        return self.cents - self.other_cents


def price_list(tokens: Mapping[str, int], rates: Rates) -> Decimal | None:
    """Return the cost of tokens by component at list rates in US cents, or None if a rate is unknown."""
    total = Decimal(0)
    for component, count in tokens.items():
        if not count:
            continue
        rate = rates.of(component)
        if rate is None:
            return None
        total += rate * count
    return total * _CENTS_PER_DOLLAR / TOKEN_UNIT


def price_with(use: ModelUse, other: str, prices: Prices, at: datetime) -> float | None:
    """Return the cost in US cents of the same tokens with the model ``other``.

    ``at`` is the instant of the list prices. None if a price of either model is unknown."""
    own, its = (prices.find_rates(model, at) for model in (use.model, other))
    if own is None or its is None or use.unpriced_tokens:
        return None
    own_list, its_list = price_list(use.tokens, own), price_list(use.tokens, its)
    if own_list is None or its_list is None:
        return None
    if not own_list:
        return use.cents
    return use.search_cents + (use.cents - use.search_cents) * float(its_list / own_list)


def list_candidates(used: Iterable[str], prices: Prices, at: datetime) -> Sequence[str]:
    """Return the models to compare with, the most expensive first.

    These are the used models that have a price, and the newest model of each family in the built-in
    list."""
    newest: dict[str, str] = {}
    for model in prices.list_models():
        family, version = _FAMILY.match(model), find_version(model)
        if family is None or version is None or prices.find_rates(model, at) is None:
            continue
        known = newest.get(family[1])
        if known is None or (find_version(known) or version) < version:
            newest[family[1]] = model
    found = {model: prices.find_rates(model, at) for model in {*used, *newest.values()}}
    priced = {model: rates for model, rates in found.items() if rates is not None}
    return sorted(priced, key=lambda model: (-_rank(priced[model]), model))


def _rank(rates: Rates) -> Decimal:
    """Return the price of an input token plus an output token, by which models are ordered."""
    return sum((rates.of(each.name) or Decimal(0) for each in (INPUT, OUTPUT)), Decimal(0))


def suggest(
    uses: Sequence[ModelUse], prices: Prices, at: datetime, limit: int
) -> Sequence[Exchange]:
    """Return the next cheaper model for the most expensive used ones, preferably one that is also used.

    Models without a cheaper one, or with negligible savings, are left out."""
    used = {use.model for use in uses}
    candidates = list_candidates(used, prices, at)
    total = sum(use.cents for use in uses)
    found = []
    for use in sorted(uses, key=lambda use: -use.cents):
        cheaper = [
            each
            for each in price_all(use, candidates, prices, at)
            if each.saved_cents > total * _LEAST_CHANGE
        ]
        if cheaper:
            known = [each for each in cheaper if each.other in used]
            found.append(min(known or cheaper, key=lambda each: (each.saved_cents, each.other)))
    return found[:limit]


def price_all(
    use: ModelUse, others: Iterable[str], prices: Prices, at: datetime
) -> Sequence[Exchange]:
    """Return the calls of a model compared with each of the other models, as far as prices are known."""
    return [
        Exchange(model=use.model, other=other, cents=use.cents, other_cents=cents)
        for other in others
        if other != use.model and (cents := price_with(use, other, prices, at)) is not None
    ]
