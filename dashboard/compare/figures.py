"""The figures of two calls side by side: facts, tokens, and the line items of both bills.

All text here is fit to be shown (see ``runtime.safe_text``) and still to be escaped, which templates do.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from metering.components import TITLES
from metering.entry import CostItem, UsageLogEntry
from metering.formats import (
    UNKNOWN,
    format_cache_share,
    format_cents_change,
    format_cents_for_column,
    format_count,
    format_count_change,
    format_duration,
)
from metering.token_counts import TOKEN_CLASSES
from runtime.safe_text import reveal


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of a table: the value before and after, and the change where it is a number."""

    label: str
    before: str
    after: str
    change: str = ""

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True, kw_only=True)
class BillRow:
    """A component of both bills. Quantities and costs are sums over all passes and models."""

    component: str
    quantities: tuple[str, str]
    cents: tuple[str, str]
    change: str


def list_figures(old: UsageLogEntry, new: UsageLogEntry) -> Iterator[Row]:
    """Yield what came back, and how long it took."""
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
    """Yield the settings of both calls that are not in their bodies: name, before, after."""
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
    """Return the components of both bills with the total as the last row; nothing without items."""
    sums = [_sum_items(entry.cost_items) for entry in (old, new)]
    rows = [
        _bill_row(title, *(each.get(name, (0, Decimal(0))) for each in sums))
        for name, title in TITLES.items()
        if any(name in each for each in sums)
    ]
    if rows:
        rows.append(
            BillRow(
                component="Total",
                quantities=("", ""),
                cents=(
                    format_cents_for_column(old.cost_cents),
                    format_cents_for_column(new.cost_cents),
                ),
                change=_change(old.cost_cents, new.cost_cents),
            )
        )
    return tuple(rows)


def _sum_items(items: tuple[CostItem, ...]) -> Mapping[str, tuple[int, Decimal | None]]:
    quantities: dict[str, int] = defaultdict(int)
    cents: dict[str, Decimal | None] = defaultdict(Decimal)
    for item in items:
        quantities[item.component] += item.quantity
        so_far = cents[item.component]
        unknown = item.cents is None or so_far is None
        cents[item.component] = None if unknown else so_far + item.cents  # type: ignore[operator]
    return {name: (quantity, cents[name]) for name, quantity in quantities.items()}


def _bill_row(
    title: str, old: tuple[int, Decimal | None], new: tuple[int, Decimal | None]
) -> BillRow:
    return BillRow(
        component=title,
        quantities=(format_count(old[0]), format_count(new[0])),
        cents=(format_cents_for_column(old[1]), format_cents_for_column(new[1])),
        change=_change(old[1], new[1]),
    )


def _change(old: Decimal | None, new: Decimal | None) -> str:
    return UNKNOWN if old is None or new is None else format_cents_change(new - old)


def _count(label: str, old: int | None, new: int | None) -> Row:
    change = "" if old is None or new is None else format_count_change(new - old)
    return Row(label=label, before=format_count(old), after=format_count(new), change=change)


def _time(label: str, old: float | None, new: float | None) -> Row:
    change = ""
    if old is not None and new is not None:
        change = f"{'+' if new >= old else '-'}{format_duration(abs(new - old))}"
    return Row(label=label, before=format_duration(old), after=format_duration(new), change=change)


def _as_text(value: object) -> str:
    return UNKNOWN if value is None else reveal(str(value))
