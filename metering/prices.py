"""Prices of models, with the dates from which they hold.

The base is the table of the ``genai-prices`` package: list prices with their dates, bundled with the
installed version, so a price never changes under a running recorder and nothing is fetched. An
operator's TOML file takes precedence; ``docs/prices.md`` describes it.

Unknown rates are None: those of an unknown model, fast rates of a model that has none, a component
without a rate. A cost computed from an unknown rate must be unknown too.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import cast

import genai_prices
from genai_prices.types import ModelPrice, TieredPrices

from metering.components import TOKEN_COMPONENTS, WEB_SEARCH

BASE_VERSION = f"genai-prices {genai_prices.__version__}"
WEB_SEARCH_USD_PER_THOUSAND = Decimal(10)
RESOLVED_RATES_KEPT = 4096


class PriceFileError(Exception):
    """A price file that cannot be used. The message names the file and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates by component, in US dollars per million tokens or per thousand searches. None is
    unknown."""

    by_component: Mapping[str, Decimal | None]
    price_version: str

    def of(self, component: str) -> Decimal | None:
        return self.by_component.get(component)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTiers:
    """The rates of one model on one day at one speed: ``tiers`` are (prompt size, rates), by size.
    A prompt larger than a size pays that tier's rates for all of its tokens."""

    base: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()

    def pick(self, prompt_tokens: int) -> Rates:
        reached = [rates for above, rates in self.tiers if prompt_tokens > above]
        return reached[-1] if reached else self.base


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOverride:
    """One dated entry of the operator's file."""

    match: str
    starts: date
    standard: RateTiers
    fast: RateTiers | None = None


class PriceTable:
    """Finds rates, and remembers them, because a recorder needs the same few over and over."""

    def __init__(self, overrides: Sequence[PriceOverride] = ()) -> None:
        # Stable, so that of entries with the same start the later in the file stays the later.
        self._overrides = sorted(overrides, key=lambda override: override.starts)
        self._resolve = lru_cache(maxsize=RESOLVED_RATES_KEPT)(self._find_tiers)

    def find_rates(
        self, model: str, at: datetime, *, prompt_tokens: int = 0, speed: str | None = None
    ) -> Rates | None:
        """Return the list rates that ``model`` had at that instant, None when they are not known."""
        # No price of the base changes within a day, and overrides start with one.
        tiers = self._resolve(model, at.astimezone(UTC).date(), speed == "fast")
        return tiers.pick(prompt_tokens) if tiers is not None else None

    def _find_tiers(self, model: str, day: date, is_fast: bool) -> RateTiers | None:
        for override in reversed(self._overrides):
            if override.starts <= day and fnmatchcase(model, override.match):
                return override.fast if is_fast else override.standard
        return _find_base_tiers(model, day, is_fast)


def parse_overrides(text: str, file_name: str) -> list[PriceOverride]:
    """Return what a price file says. Raises PriceFileError, which names the file and the field."""
    try:
        document = tomllib.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise PriceFileError(f"{file_name}: {error}") from error
    root = _Fields(document, file_name)
    entries = root.take("models")
    root.refuse_rest()
    if not isinstance(entries, list):
        raise PriceFileError(f"{file_name}: models: must be a list of [[models]] tables")
    return [
        _parse_override(_Fields(entry, file_name, f"models[{index}]"), file_name)
        for index, entry in enumerate(entries, start=1)
    ]


def _parse_override(fields: "_Fields", file_name: str) -> PriceOverride:
    match, starts = fields.take_text("match"), fields.take_day("starts")
    version = f"override {file_name} {starts.isoformat()}"
    web_search = fields.take_rate(WEB_SEARCH.name, WEB_SEARCH_USD_PER_THOUSAND)
    base = _parse_rates(fields, web_search, version)
    long_prompt, fast = fields.take_table("long_prompt"), fields.take_table("fast")
    fields.refuse_rest()
    standard, fast_tiers = RateTiers(base=base), None
    if long_prompt is not None:
        above = long_prompt.take_size("above")
        tier = _parse_rates(long_prompt, web_search, version)
        standard = RateTiers(base=base, tiers=((above, tier),))
        long_prompt.refuse_rest()
    if fast is not None:
        fast_tiers = RateTiers(base=_parse_rates(fast, web_search, version))
        fast.refuse_rest()
    return PriceOverride(match=match, starts=starts, standard=standard, fast=fast_tiers)


def _parse_rates(fields: "_Fields", web_search: Decimal, version: str) -> Rates:
    rates: dict[str, Decimal | None] = {
        component.name: fields.take_rate(component.name)
        for component in TOKEN_COMPONENTS
        if component.is_required or component.name in fields
    }
    return Rates(by_component=rates | {WEB_SEARCH.name: web_search}, price_version=version)


class _Fields:
    """A table of the file from which fields are taken one by one; errors name their place in it."""

    def __init__(self, table: object, *place: str) -> None:
        self._place = place
        if not isinstance(table, dict):
            raise PriceFileError(f"{': '.join(place)}: must be a table")
        self._table = dict(table)

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def take(self, name: str) -> object:
        return self._table.pop(name, None)

    def take_text(self, name: str) -> str:
        value = self.take(name)
        if not isinstance(value, str) or not value:
            raise self._error(name, "must be a text")
        return value

    def take_day(self, name: str) -> date:
        value = self.take(name)
        if not isinstance(value, date) or isinstance(value, datetime):
            raise self._error(name, "must be a day such as 2026-11-01")
        return value

    def take_size(self, name: str) -> int:
        value = self.take(name)
        if type(value) is not int or value < 0:
            raise self._error(name, "must be a whole number of tokens")
        return value

    def take_rate(self, name: str, default: Decimal | None = None) -> Decimal:
        value = self.take(name)
        if value is None and default is not None:
            return default
        if type(value) is int:
            value = Decimal(value)
        if not isinstance(value, Decimal) or not value.is_finite() or value < 0:
            raise self._error(name, "must be a price in US dollars, 0 or more")
        return value

    def take_table(self, name: str) -> "_Fields | None":
        value = self.take(name)
        return None if value is None else _Fields(value, *self._place, name)

    def refuse_rest(self) -> None:
        for name in self._table:
            raise self._error(name, "is not a field of this table")

    def _error(self, name: str, complaint: str) -> PriceFileError:
        return PriceFileError(f"{': '.join((*self._place, name))}: {complaint}")


def _find_base_tiers(model: str, day: date, is_fast: bool) -> RateTiers | None:
    standard = _find_base_price(model, day)
    price = _find_base_price(model, day, speed="fast") if is_fast else standard
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
        base=_base_rates(price, 0),
        tiers=tuple((size, _base_rates(price, size + 1)) for size in sorted(sizes)),
    )


def _find_base_price(model: str, day: date, **context: str) -> ModelPrice | None:
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(input_tokens=0),
            model,
            provider_id="anthropic",
            genai_request_timestamp=datetime.combine(day, time(), UTC),
            price_context=context,
        )
    except LookupError:
        return None
    return found.model_price


def _base_rates(price: ModelPrice, prompt_tokens: int) -> Rates:
    def rate(name: str) -> Decimal | None:
        value = vars(price).get(name)
        if not isinstance(value, TieredPrices):
            return cast(Decimal | None, value)
        reached = [tier.price for tier in value.tiers if prompt_tokens > tier.start]
        return reached[-1] if reached else value.base

    rates = {component.name: rate(component.base_price) for component in TOKEN_COMPONENTS}
    web_search = rate(WEB_SEARCH.base_price) or WEB_SEARCH_USD_PER_THOUSAND
    return Rates(by_component=rates | {WEB_SEARCH.name: web_search}, price_version=BASE_VERSION)
