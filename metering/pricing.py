"""Computing the cost of a call from its usage, as line items with quantity, rate and multiplier.

A call is one pass of a model or, where upstream lists ``iterations``, several: compaction, advisor,
fallback. Each pass is priced by its own model and the size of its own prompt. Geography, speed,
service tier and web searches are those of the call.

    cents = quantity / unit x list rate x multiplier x 100

Fast and long-prompt prices are list rates of their own. Multipliers are batch (0.5) and inference in
the US (1.1, all classes of tokens, models from 4.6 on). Web search is never multiplied.
A pass that declined the request before it gave any output is not billed and has no item.

If any part of a cost is unknown, the cost is None. The items are stored with their quantities, which
are all that ``reprice`` needs to compute the cost later. All arithmetic is exact.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from metering.components import TOKEN_COMPONENTS, WEB_SEARCH
from metering.entry import CostItem
from metering.prices import PriceTable
from metering.usage import Pass, Usage

BATCH_MULTIPLIER = Decimal("0.5")
US_MULTIPLIER = Decimal("1.1")
US_MULTIPLIER_SINCE = (4, 6)
TOKEN_UNIT, SEARCH_UNIT = 1_000_000, 1_000
ATTEMPT_TYPES = ("message", "fallback_message")

# claude-opus-4-6, claude-4.6-opus, claude-sonnet-5@20260101: the number after 4- may be a date.
_VERSION = re.compile(r"^claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


class Line(NamedTuple):
    """A quantity to be priced: the fields of a CostItem that do not depend on prices."""

    pass_index: int
    model: str | None
    component: str
    quantity: int
    prompt_tokens: int


type Bill = tuple[tuple[CostItem, ...], Decimal | None]


def price_usage(usage: Usage, created_at: datetime, prices: PriceTable) -> Bill:
    """Return the items and the total in US cents. Without any known count there is neither."""
    if usage.source == "none":
        return (), None
    passes = _find_billed_passes(usage)
    lines = [line for index, billed in enumerate(passes) for line in _list_tokens(index, billed)]
    if usage.web_search_requests:
        lines.append(Line(0, usage.model, WEB_SEARCH.name, usage.web_search_requests, 0))
    if not lines:
        return (), Decimal(0) if _are_known(passes, created_at, prices) else None
    return reprice(lines, created_at, usage.service_tier, usage.speed, usage.inference_geo, prices)


def reprice(
    items: Iterable[CostItem | Line],
    created_at: datetime,
    service_tier: str | None,
    speed: str | None,
    inference_geo: str | None,
    prices: PriceTable,
) -> Bill:
    """Price the stored quantities anew; what rates the items carry is ignored. Ask it only about
    entries that have items: no items do not tell a call that was free from one that is unknown."""
    is_batch = service_tier == "batch"
    priced = tuple(
        _price_item(
            item,
            created_at,
            prices,
            speed=None if is_batch else speed,  # fast is not offered in batches
            multiplier=_find_multiplier(item, is_batch=is_batch, is_us=inference_geo == "us"),
        )
        for item in items
    )
    known = [item.cents for item in priced if item.cents is not None]
    return priced, sum(known, Decimal(0)) if known and len(known) == len(priced) else None


def _find_billed_passes(usage: Usage) -> Sequence[Pass]:
    whole = Pass(
        type="message",
        model=usage.model,
        tokens=usage.tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
    )
    billed: list[Pass] = []
    is_taken_over = False
    # From the end: an attempt was declined if it has no output and a later attempt took over.
    for attempt in reversed(usage.passes or (whole,)):
        is_attempt = attempt.type in ATTEMPT_TYPES  # and not compaction or advice in between
        is_declined = is_taken_over and is_attempt and attempt.tokens.output_tokens == 0
        if not is_declined:
            billed.append(attempt if attempt.model else replace(attempt, model=usage.model))
        if is_attempt:
            is_taken_over = is_declined or attempt.type == "fallback_message"
    return billed[::-1]


def _list_tokens(index: int, billed: Pass) -> list[Line]:
    prompt_tokens = billed.tokens.prompt or 0
    return [
        Line(index, billed.model, component.name, quantity, prompt_tokens)
        for component in TOKEN_COMPONENTS
        if (quantity := component.quantity(billed))
    ]


def _are_known(passes: Iterable[Pass], at: datetime, prices: PriceTable) -> bool:
    """Return whether the cost is known.

    No tokens at a model without a price are still an unknown cost, not 0."""
    return all(
        billed.model is not None and prices.find_rates(billed.model, at) is not None
        for billed in passes
    )


def _price_item(
    item: CostItem | Line,
    at: datetime,
    prices: PriceTable,
    *,
    speed: str | None,
    multiplier: Decimal,
) -> CostItem:
    rates = rate = None
    if item.model is not None:
        rates = prices.find_rates(item.model, at, prompt_tokens=item.prompt_tokens, speed=speed)
    if rates is not None:
        rate = rates.of(item.component)
    unit = SEARCH_UNIT if item.component == WEB_SEARCH.name else TOKEN_UNIT
    return CostItem(
        pass_index=item.pass_index,
        model=item.model,
        component=item.component,
        quantity=item.quantity,
        prompt_tokens=item.prompt_tokens,
        rate_usd=rate,
        multiplier=None if rate is None else multiplier,
        price_version=None if rates is None or rate is None else rates.price_version,
        cents=None if rate is None else item.quantity * rate * multiplier * 100 / unit,
    )


def _find_multiplier(item: CostItem | Line, *, is_batch: bool, is_us: bool) -> Decimal:
    multiplier = Decimal(1)
    if item.component == WEB_SEARCH.name:
        return multiplier
    if is_batch:
        multiplier *= BATCH_MULTIPLIER
    if is_us and _has_us_price(item.model):
        multiplier *= US_MULTIPLIER
    return multiplier


def _has_us_price(model: str | None) -> bool:
    version = _VERSION.match(model or "")
    if version is None:
        return False
    return (int(version[1]), int(version[2] or 0)) >= US_MULTIPLIER_SINCE
