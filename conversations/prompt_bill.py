"""The bill for the prompt of a call: the tokens of each part, and the price of one token.

If there are several passes, it is that of the first pass of the model that answered: its prompt is
the body of the request, which later passes repeat with additions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from conversations.summaries import NO_TOKENS, PromptTokens
from conversations.token_shares import Part
from metering.components import CACHE_WRITE_1H, PROMPT_COMPONENTS
from metering.entry import CostItem, UsageLogEntry
from metering.model_names import is_same_model

COMPONENTS: Mapping[Part, str] = {
    "read": "cache_read",
    "written_1h": CACHE_WRITE_1H,
    "written_5m": "cache_write_5m",
    "uncached": "input",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptBill:
    """The bill for the prompt of one pass.

    ``cents`` is the price of one token of each part, None if it is unknown or there was no such token.
    ``is_sum``: upstream gave one count for several passes."""

    tokens: PromptTokens = NO_TOKENS
    cents: Mapping[Part, Decimal | None]
    passes: int = 1
    is_sum: bool = False

    def price(self, part: Part, tokens: int) -> Decimal | None:
        """Return the cost of ``tokens`` tokens of a part in US cents, or None if unknown."""
        rate = self.cents.get(part)
        return Decimal(0) if not tokens else None if rate is None else rate * tokens


def read_prompt_bill(entry: UsageLogEntry) -> PromptBill:
    """Return the tokens and prices of the prompt of a call, from the line items of its cost."""
    lines = find_prompt_lines(entry.cost_items, entry.model)
    if not lines:
        return PromptBill(tokens=_count_columns(entry), cents={})
    passes = {item.pass_index for item in entry.cost_items if item.component in PROMPT_COMPONENTS}
    return PromptBill(
        tokens=count_prompt(lines),
        cents={part: _price(lines.get(name)) for part, name in COMPONENTS.items()},
        passes=len(passes),
        is_sum=any(item.note == "sum_of_passes" for item in lines.values()),
    )


def find_prompt_lines(items: Sequence[CostItem], model: str | None) -> dict[str, CostItem]:
    """Return the line items of the prompt of the first pass of a model, by component."""
    own = [
        item
        for item in items
        if item.component in PROMPT_COMPONENTS
        and (model is None or item.model is None or is_same_model(item.model, model))
    ]
    first = min((item.pass_index for item in own), default=0)
    return {item.component: item for item in own if item.pass_index == first}


def count_prompt(lines: Mapping[str, CostItem]) -> PromptTokens:
    """Return the number of tokens in these line items, by part of the bill."""
    return PromptTokens(**{part: _quantity(lines.get(name)) for part, name in COMPONENTS.items()})


def _count_columns(entry: UsageLogEntry) -> PromptTokens:
    written, hour = entry.tokens.cache_creation_input_tokens or 0, entry.cache_write_1h_tokens or 0
    return PromptTokens(
        read=entry.tokens.cache_read_input_tokens or 0,
        written_5m=max(written - hour, 0),
        written_1h=hour,
        uncached=entry.tokens.input_tokens or 0,
    )


def _quantity(item: CostItem | None) -> int:
    return 0 if item is None else item.quantity


def _price(item: CostItem | None) -> Decimal | None:
    if item is None or item.cents is None or not item.quantity:
        return None
    return item.cents / item.quantity
