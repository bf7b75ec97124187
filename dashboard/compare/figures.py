"""The figures of two calls side by side: facts, tokens, and the line items of both bills."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from metering.components import TITLES
from metering.entry import CostItem, UsageLogEntry
from metering.formats import (
    UNKNOWN,
    format_cache_share,
    format_count,
    format_count_change,
    format_duration,
)
from metering.token_counts import TOKEN_CLASSES


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a table: the value of both calls, and the change if it is a number."""

    label: str
    before: str
    after: str
    change: str = ""

    @property
    def differs(self) -> bool:
        return self.before != self.after


class Item(NamedTuple):
    """A component of a bill: sums over all passes and models. ``cents`` is None if the cost of any part is
    unknown."""

    quantity: int = 0
    cents: Decimal | None = Decimal(0)


type BillRow = tuple[str, Item, Item]  # the title of a component, and it in both bills


def list_figures(old: UsageLogEntry, new: UsageLogEntry) -> Iterator[Row]:
    """Yield the figures of both responses: outcome, tokens and durations."""
    names: dict[str, list[str | int | None]] = {
        "Model": [entry.model or entry.request_model for entry in (old, new)],
        "Outcome": [entry.outcome.replace("_", " ") for entry in (old, new)],
        "Status": [entry.status_code for entry in (old, new)],
        "Stop reason": [entry.stop_reason for entry in (old, new)],
    }
    for label, (before, after) in names.items():
        yield Row(label=label, before=_as_text(before), after=_as_text(after))
    for each in TOKEN_CLASSES:
        counts = (getattr(entry.tokens, each.name) for entry in (old, new))
        yield _count(f"Tokens: {each.title.lower()}", *counts)
    yield Row(
        label="Prompt from cache",
        before=format_cache_share(old.tokens),
        after=format_cache_share(new.tokens),
    )
    yield _time("Time to first byte", old.ttfb_ms, new.ttfb_ms)
    yield _time("Duration", old.duration_ms, new.duration_ms)


def list_headers(
    old: UsageLogEntry, new: UsageLogEntry
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the settings of both calls that are not in their bodies, as (name, before, after)."""
    for label, name in (
        ("Endpoint", "slug"),
        ("Path and query", "path_query"),
        ("API version", "api_version"),
        ("Client", "client"),
        ("Service tier", "service_tier"),
    ):
        yield label, getattr(old, name), getattr(new, name)
    betas = [
        {each.strip() for each in (entry.betas or "").split(",")} - {""} for entry in (old, new)
    ]
    for beta in sorted(betas[0] | betas[1]):
        before, after = ("on" if beta in each else None for each in betas)
        yield f"Beta {beta}", before, after


def list_bill(old: UsageLogEntry, new: UsageLogEntry) -> tuple[BillRow, ...]:
    """Return the components that either bill has, as (title, item before, item after)."""
    before, after = (_sum_items(entry.cost_items) for entry in (old, new))
    return tuple(
        (title, before.get(name, Item()), after.get(name, Item()))
        for name, title in TITLES.items()
        if name in before or name in after
    )


def _sum_items(items: tuple[CostItem, ...]) -> Mapping[str, Item]:
    sums: dict[str, Item] = {}
    for item in items:
        quantity, cents = sums.get(item.component, Item())
        is_unknown = cents is None or item.cents is None
        total = None if is_unknown else cents + item.cents  # type: ignore[operator]
        sums[item.component] = Item(quantity + item.quantity, total)
    return sums


def _count(label: str, old: int | None, new: int | None) -> Row:
    change = "" if old is None or new is None else format_count_change(new - old)
    return Row(label=label, before=format_count(old), after=format_count(new), change=change)


def _time(label: str, old: float | None, new: float | None) -> Row:
    change = ""
    if old is not None and new is not None:
        change = f"{'+' if new >= old else '\N{MINUS SIGN}'}{format_duration(abs(new - old))}"
    return Row(label=label, before=format_duration(old), after=format_duration(new), change=change)


def _as_text(value: object) -> str:
    return UNKNOWN if value is None else str(value)
