"""Rates of models: by component, prompt size and speed, with the days between which they apply."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates by component, in US dollars per million tokens or per thousand searches.

    None means unknown."""

    by_component: Mapping[str, Decimal | None]
    price_version: str

    def of(self, component: str) -> Decimal | None:
        return self.by_component.get(component)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateTiers:
    """The rates of one model on one day at one speed.

    ``tiers`` are (prompt size in tokens, rates), sorted by size. For a larger prompt the rates of the
    tier apply to all its tokens."""

    base: Rates
    tiers: tuple[tuple[int, Rates], ...] = ()

    def pick(self, prompt_tokens: int) -> Rates:
        reached = [rates for above, rates in self.tiers if prompt_tokens > above]
        return reached[-1] if reached else self.base


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceEntry:
    """The rates of some models from ``starts`` until the day before ``ends``.

    An entry with ``standard`` rates applies at every speed: without ``fast`` rates, those are unknown.
    An entry without ``standard`` rates applies in fast mode only. An entry with ``upstreams`` applies
    to calls to these only. ``is_as_listed``: such calls cost the same as those to the upstream of the
    service."""

    match: tuple[str, ...]
    starts: date
    ends: date | None = None
    standard: RateTiers | None = None
    fast: RateTiers | None = None
    source: str | None = None
    upstreams: tuple[str, ...] = ()
    is_as_listed: bool = False

    def holds(self, model: str, day: date, *, is_fast: bool, upstream: str | None = None) -> bool:
        return (
            self.starts <= day
            and (self.ends is None or day < self.ends)
            and (upstream in self.upstreams if self.upstreams else upstream is None)
            and (is_fast or self.is_as_listed or self.standard is not None)
            and any(fnmatchcase(model, pattern) for pattern in self.match)
        )
