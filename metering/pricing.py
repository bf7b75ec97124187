"""Computing the cost of a call from its line items: a rate and a multiplier for each quantity.

    cents = quantity / unit x list rate x multiplier x 100

Fast and long-prompt prices are list rates of their own. Multipliers are batch, inference in the US, and
0 for what upstream does not bill. Web search is never multiplied.

Recorder and ``reprice`` both price a ``Call``, which holds everything that matters. If any part of a
cost is unknown, the cost is None. All arithmetic is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter

from metering.billed_passes import Call
from metering.components import SEARCH_UNIT, TOKEN_UNIT, WEB_SEARCH
from metering.entry import COUNT_MISSING, CostItem
from metering.model_names import find_version
from metering.prices import PriceTable
from metering.rates import Rates

UNBILLED, LIST_PRICE = Decimal(0), Decimal(1)
# Of one token or search at a rate of one dollar.
TOKEN_CENTS, SEARCH_CENTS = Decimal(100) / TOKEN_UNIT, Decimal(100) / SEARCH_UNIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Multiplier:
    """A factor on all classes of tokens, from a day on, and for models from a version on."""

    factor: Decimal
    starts: date
    since_version: tuple[int, int] = (0, 0)

    def applies(self, model: str | None, day: date) -> bool:
        """Return whether the factor applies to a model on a day."""
        if day < self.starts:
            return False
        version = find_version(model or "")
        return self.since_version <= (version or (0, 0))


# A factor that changes gets another entry; the last one that applies holds. Sources, as read on
# 2026-11-21: https://claude.com/blog/message-batches-api (October 8, 2024), and for the region
# https://platform.claude.com/docs/en/manage-claude/data-residency and the release notes of
# February 5, 2026: Opus 4.6 and all later models; earlier ones refuse `inference_geo`.
BATCH = (Multiplier(factor=Decimal("0.5"), starts=date(2024, 10, 8)),)
US = (Multiplier(factor=Decimal("1.1"), starts=date(2026, 2, 5), since_version=(4, 6)),)

_read_pass = attrgetter("model", "prompt_tokens", "speed")

type Bill = tuple[tuple[CostItem, ...], Decimal | None]


def price_call(call: Call, prices: PriceTable) -> Bill:
    """Return the items with their prices, and the total in US cents.

    The total is 0 for a call that upstream does not bill, and None if a billed or possibly billed
    quantity has no known price or was not counted."""
    if not call.items:
        return (), Decimal(0) if call.is_unbilled or _is_free(call, prices) else None
    items: list[CostItem] = []
    for _, alike in groupby(call.items, _read_pass):
        items += _price_pass(list(alike), call, prices)
    known = [item.cents for item in items if item.cents is not None]
    return tuple(items), sum(known, Decimal(0)) if len(known) == len(items) else None


def _is_free(call: Call, prices: PriceTable) -> bool:
    """Return whether a call without items is known to cost 0: it has usage, and its model has a price."""
    if call.usage_source == "none" or call.model is None:
        return False
    return prices.find_rates(call.model, call.created_at, upstream=call.upstream) is not None


def _price_pass(items: Sequence[CostItem], call: Call, prices: PriceTable) -> list[CostItem]:
    """Return items with their prices. They are of one model, prompt and speed, so they have the same
    rates."""
    model = items[0].model
    # Items of before speeds were stored have none, which comes to the same.
    speed = items[0].speed or (call.speed if model == call.model else None)
    is_batch = "batch" in (call.product, call.service_tier)
    rates = None
    if model is not None:
        rates = prices.find_rates(
            model,
            call.created_at,
            prompt_tokens=items[0].prompt_tokens,
            speed=None if is_batch else speed,  # fast is not offered in batches
            upstream=call.upstream,
        )
    multiplier = LIST_PRICE
    if is_batch:
        multiplier *= find_factor(BATCH, model, call.created_at)
    if call.inference_geo is not None and call.inference_geo.lower() == "us":
        multiplier *= find_factor(US, model, call.created_at)
    return [_price_item(item, speed, rates, multiplier) for item in items]


def _price_item(
    item: CostItem, speed: str | None, rates: Rates | None, of_tokens: Decimal
) -> CostItem:
    rate = None
    if rates is not None and item.note != COUNT_MISSING:
        rate = rates.of(item.component)
    multiplier = cents = None
    if item.unbilled_reason is not None:
        multiplier, cents = UNBILLED, Decimal(0)
    elif rate is not None:
        is_search = item.component == WEB_SEARCH.name
        multiplier = LIST_PRICE if is_search else of_tokens
        cents = item.quantity * rate * multiplier * (SEARCH_CENTS if is_search else TOKEN_CENTS)
    return CostItem(  # in order of its fields: by name takes twice as long
        item.pass_index,
        item.model,
        item.component,
        item.quantity,
        item.prompt_tokens,
        speed,
        item.unbilled_reason,
        item.note,
        item.estimated,
        rate,
        multiplier,
        None if rates is None or rate is None else rates.price_version,
        cents,
    )


def find_factor(table: tuple[Multiplier, ...], model: str | None, at: datetime) -> Decimal:
    """Return the factor for a model at an instant, 1 if none applies."""
    day = at.astimezone(UTC).date()
    found = (each.factor for each in reversed(table) if each.applies(model, day))
    return next(found, Decimal(1))
