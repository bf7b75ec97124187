"""The certain cost of calls in flight: that of the input tokens that upstream has reported.

The first event of a stream has the counts of the prompt, which is billed whatever follows. The
output is not counted before the end, and is not estimated. So this is less than the calls will
cost, and never more, except if a model declines before it writes anything."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from metering.budget_periods import Span
from metering.components import TOKEN_CLASSES
from metering.entry import CostItem
from metering.prices import PriceTable
from metering.token_counts import PROMPT_CLASSES
from recorder.record import make_entry
from recorder.requests import FieldReader
from runtime import clock
from store.control.budgets import Budget
from store.spool import reader
from store.spool.reader import Waiting
from store.traces.sums.rollup import PAID_BY_OTHERS, BookedCall, make_key

_PROMPT = frozenset(each.name for each in PROMPT_CLASSES)
RESPONSE_BYTES = 16 * 1024  # the first event is within them


@dataclass(frozen=True, slots=True)
class InputCost:
    """The cost of the input of a call in flight, in cents."""

    organization_id: str
    proxy_endpoint_id: str
    created_at: datetime
    cents: float


class CallsInFlight:
    """A reader of the beginning of each response in the spool, which is read once."""

    def __init__(self, spool_root: Path, prices: Callable[[], PriceTable]) -> None:
        self._root = spool_root
        self._prices = prices
        self._requests = FieldReader()
        self._costs: dict[str, InputCost] = {}  # by entry id

    def refresh(self, organization_ids: Collection[str]) -> None:
        """Find the calls of these organisations that are in flight now, and their costs."""
        costs: dict[str, InputCost] = {}
        if organization_ids:
            for file in reader.find_in_flight(self._root):
                if file.owner in organization_ids:
                    cost = self._costs.get(file.entry_id) or self._read(file)
                    if cost is not None:
                        costs[file.entry_id] = cost
        self._costs = costs

    def find_usd(self, budget: Budget, span: Span) -> float:
        """Return the cost in dollars of calls in flight that a budget counts in a period."""
        cents = sum(
            cost.cents
            for cost in self._costs.values()
            if cost.organization_id == budget.organization_id
            and budget.proxy_endpoint_id in (None, cost.proxy_endpoint_id)
            and span.has(cost.created_at)
        )
        return cents / 100

    def _read(self, file: Waiting) -> InputCost | None:
        """Return the input cost of a call, or None if its input is not counted yet."""
        try:
            exchange = reader.read_beginning(file.file, RESPONSE_BYTES)
            if exchange is None:
                return None
            entry = make_entry(exchange, self._prices(), self._requests)
        except Exception:
            # It has ended, or will be set aside; in either case it counts once it has an entry.
            return None
        if entry.usage_source == "none":
            return None
        is_spend = make_key(BookedCall.of(entry)).billing not in PAID_BY_OTHERS
        return InputCost(
            organization_id=exchange.head.organization_id,
            proxy_endpoint_id=exchange.head.proxy_endpoint_id,
            created_at=clock.parse_instant(exchange.head.created_at),
            cents=_add_up_input(entry.cost_items) if is_spend else 0.0,
        )


def _add_up_input(items: Iterable[CostItem]) -> float:
    """Return the total in cents of line items for input that is certainly billed."""
    return sum(
        float(item.cents)
        for item in items
        if TOKEN_CLASSES.get(item.component) in _PROMPT
        and item.cents is not None
        and item.unbilled_reason is None
        and not item.estimated
    )
