"""The line items of a call's cost: quantity, rate and amount."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Literal

from dashboard.paid_parts import PaidFor, PaidPart, find_part, list_paid_for, sum_parts
from metering import components
from metering.entry import (
    COUNT_MISSING,
    CostItem,
    CostNote,
    UnbilledReason,
    UsageLogEntry,
    lacks_count,
)
from metering.formats import (
    UNKNOWN,
    count_decimals,
    format_count,
    format_dollars,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line item. ``multiplier`` is empty if it is 1 or the item is not billed, ``remark`` is empty if
    nothing is unusual. ``part`` has the title and colour of the component in charts."""

    part: PaidPart
    component: str
    quantity: str
    rate: str
    multiplier: str
    cost: str
    remark: str


type Explanation = Literal["unpriced", "uncounted", "unknown", "free", "itemized"]

_REASONS: dict[UnbilledReason, str] = {
    "refused_before_output": "Not billed: the model declined before any output.",
    "declined_hop": "Not billed: the model declined before any output, and another one took over.",
    "failed": "Not billed: the response is an error.",
}
_NOTES: dict[CostNote, str] = {
    "sum_of_passes": "A sum of several passes: if there is a price for long prompts, it may not apply.",
    "hidden_thinking": "Estimated by what was delivered, without thinking that is not shown.",
    "uncounted_tokens": "Estimated by what was delivered, without tokens that upstream counts at the end:"
    " the prompt of this pass, or advice.",
    "count_missing": "The response leaves out this count.",
}
_ESTIMATED = "Estimated by what was delivered: the response was cut."
_ASSUMED = "Estimated as the prompt of the model before: the response was cut."


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The line items of one model in one pass of the call. ``number`` counts from 1."""

    number: int
    model: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """All line items of a call. ``unpriced_models`` are the models without a known price. ``estimated`` is
    the estimated part of ``total``, empty if nothing is estimated. ``paid_by`` names somebody else who
    pays (a customer, a subscription), so that the total is a value and not a bill; otherwise it is
    empty. ``has_container``: a container was used, whose hours may be billed and are not included.
    ``bar`` has the shares of the cost for a chart."""

    passes: tuple[Pass, ...]
    total: str
    estimated: str
    paid_by: str
    has_container: bool
    explanation: Explanation
    pass_count: int
    has_multipliers: bool
    unpriced_models: tuple[str, ...]
    price_versions: tuple[str, ...]
    bar: tuple[PaidFor, ...]


def make_bill(entry: UsageLogEntry) -> Bill:
    """Return the bill of an entry, with its line items in groups by pass and model."""
    items = entry.cost_items
    cents = [entry.cost_cents, entry.estimated_cents, *(item.cents for item in items)]
    # As many digits in each row, so that the column aligns.
    digits = max((count_decimals(each / 100) for each in cents if each is not None), default=0)
    return Bill(
        passes=tuple(
            Pass(
                number=number + 1,
                model=model or UNKNOWN,
                lines=tuple(_make_line(line, digits) for line in lines),
            )
            for (number, model), lines in groupby(sorted(items, key=_pass_of), _pass_of)
        ),
        total=_format_cents(entry.cost_cents, digits),
        estimated=""
        if entry.estimated_cents is None
        else _format_cents(entry.estimated_cents, digits),
        paid_by=_find_payer(entry),
        has_container=_has_container(entry) and not entry.free_containers,
        explanation=_explain(entry),
        pass_count=len({item.pass_index for item in items}),
        has_multipliers=any(map(_format_multiplier, items)),
        unpriced_models=_list_texts(item.model for item in items if _has_no_price(item)),
        price_versions=_list_texts(item.price_version for item in items),
        bar=tuple(
            list_paid_for(sum_parts((each.component, float(each.cents or 0)) for each in items))
        ),
    )


def _has_container(entry: UsageLogEntry) -> bool:
    return entry.container_id is not None or bool(entry.container_unnamed)


def _find_payer(entry: UsageLogEntry) -> str:
    if entry.billing == "customer":
        return "a customer"
    return "a subscription" if entry.billing == "subscription" and not entry.overage else ""


def _explain(entry: UsageLogEntry) -> Explanation:
    if entry.cost_cents is not None:
        return "itemized" if entry.cost_items else "free"
    if entry.usage_source == "none":
        return "unknown"
    is_uncounted = lacks_count(entry.cost_items) and not any(map(_has_no_price, entry.cost_items))
    return "uncounted" if is_uncounted else "unpriced"


def _has_no_price(item: CostItem) -> bool:
    return item.cents is None and item.note != COUNT_MISSING


def _pass_of(item: CostItem) -> tuple[int, str]:
    return item.pass_index, item.model or ""


def _format_cents(cents: Decimal | None, digits: int) -> str:
    return format_dollars(None if cents is None else cents / 100, digits=digits)


def _make_line(item: CostItem, digits: int) -> Line:
    unit = "1k" if item.component == components.WEB_SEARCH.name else "1M"
    return Line(
        part=find_part(item.component),
        component=components.TITLES.get(item.component, item.component),
        quantity=UNKNOWN if item.note == COUNT_MISSING else format_count(item.quantity),
        rate=UNKNOWN if item.rate_usd is None else f"{format_dollars(item.rate_usd)} / {unit}",
        multiplier=_format_multiplier(item),
        cost=_format_cents(item.cents, digits),
        remark=_explain_line(item),
    )


def _format_multiplier(item: CostItem) -> str:
    if item.unbilled_reason is not None or item.multiplier in (None, 1):
        return ""
    return f"\N{MULTIPLICATION SIGN} {_plain(item.multiplier)}"


def _explain_line(item: CostItem) -> str:
    """Return why a line item is not billed, or why its cost is uncertain; "" if neither is so."""
    if item.unbilled_reason is not None:
        return _REASONS.get(item.unbilled_reason, "Not billed.")
    if item.note is not None:
        return _NOTES.get(item.note, "")
    if not item.estimated:
        return ""
    is_prompt = item.component in components.PROMPT_COMPONENTS
    return _ASSUMED if is_prompt else _ESTIMATED


def _list_texts(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(sorted({text for text in texts if text}))


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
