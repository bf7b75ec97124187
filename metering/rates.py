"""Rates of models: by component, prompt size and speed, with the days between which they hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fnmatch import fnmatchcase


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
class PriceEntry:
    """The rates of some models from ``starts`` until the day before ``ends``.

    An entry with ``standard`` rates holds at every speed: without ``fast`` rates, those are unknown.
    An entry without ``standard`` rates holds in fast mode only. One with ``upstreams`` holds for calls to
    these alone. One that ``is_as_listed`` says that such calls cost the same as those to the upstream of
    the service."""

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
