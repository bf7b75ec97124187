"""Prices of models on the day of a call, from three lists.

1. The operator's file, ``TAXIMETER_PRICES``.
2. ``prices.toml`` beside this module: prices with a public source that the third list lacks, such as
   those of models of limited availability and those that held until some day.
3. The table of the ``genai-prices`` package: list prices with their dates.

The first list with an entry for the model, day and speed decides. The second and the third belong to
the installed version, so a price never changes under a running recorder and nothing is fetched.

Unknown rates are None: those of an unknown model, fast rates of a model that has none, a component
without a rate. A cost computed from an unknown rate must be unknown too.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from functools import cache, lru_cache
from importlib import import_module, metadata
from importlib.resources import files
from typing import Protocol, cast

from metering.price_format import parse_price_file
from metering.rates import PriceEntry, Rates, RateTiers

BASE_VERSION = f"genai-prices {metadata.version('genai-prices')}"
OWN_LABEL = "taximeter prices"
RESOLVED_RATES_KEPT = 4096


class VendorList(Protocol):
    """The functions of ``vendor_prices.py`` that are called here."""

    def list_models(self) -> Sequence[str]: ...

    def find_tiers(self, model: str, day: date, is_fast: bool, label: str) -> RateTiers | None: ...


class PriceTable:
    """A table of rates. Look-ups are cached, because a recorder needs the same few over and over."""

    def __init__(self, entries: Iterable[PriceEntry] = ()) -> None:
        """Put the operator's entries before the built-in lists."""
        self._entries = (*_by_precedence(entries), *_by_precedence(read_own_entries()))
        self._resolve = lru_cache(maxsize=RESOLVED_RATES_KEPT)(self._find_tiers)

    def find_rates(
        self,
        model: str,
        at: datetime,
        *,
        prompt_tokens: int = 0,
        speed: str | None = None,
        upstream: str | None = None,
    ) -> Rates | None:
        """Return the list rates of ``model`` at an instant, or None if they are unknown.

        Rates at an ``upstream`` of an endpoint's own come only from the operator's file."""
        # No price of the base changes within a day, and entries start and end with one.
        tiers = self._resolve(model, at.astimezone(UTC).date(), speed == "fast", upstream)
        return tiers.pick(prompt_tokens) if tiers is not None else None

    @property
    def upstreams(self) -> frozenset[str]:
        """Return the names of those endpoint upstreams for which a price is known."""
        return frozenset(name for entry in self._entries for name in entry.upstreams)

    def list_models(self) -> Sequence[str]:
        """Return the names of the models in the vendor's list of ``genai-prices``."""
        return _load_vendor_list().list_models()

    def _find_tiers(
        self, model: str, day: date, is_fast: bool, upstream: str | None
    ) -> RateTiers | None:
        for entry in self._entries:
            if entry.holds(model, day, is_fast=is_fast, upstream=upstream):
                if entry.is_as_listed:
                    return self._find_tiers(model, day, is_fast, None)
                return entry.fast if is_fast else entry.standard
        if upstream is not None:
            return None
        return _load_vendor_list().find_tiers(model, day, is_fast, BASE_VERSION)


@cache
def read_own_entries() -> tuple[PriceEntry, ...]:
    """Return the entries of the price file that is part of this program."""
    text = files("metering").joinpath("prices.toml").read_text(encoding="utf-8")
    return tuple(parse_price_file(text, "metering/prices.toml", label=OWN_LABEL))


def list_built_in_versions() -> list[str]:
    """Return the versions of the built-in lists, in the form of ``price_version``."""
    tiers = [tiers for entry in read_own_entries() for tiers in (entry.standard, entry.fast)]
    own = {each.base.price_version for each in tiers if each is not None}
    return [*sorted(own), BASE_VERSION]


def _by_precedence(entries: Iterable[PriceEntry]) -> list[PriceEntry]:
    """Return entries sorted by start, latest first; with the same start, the later in the file is first."""
    return sorted(entries, key=lambda entry: entry.starts)[::-1]


def _load_vendor_list() -> VendorList:
    """Return the vendor's list, which takes a tenth of a second to load, so it is not loaded at the start."""
    return cast(VendorList, import_module("metering.vendor_prices"))
