"""Calls for the rules of savings, made from stored columns."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Protocol

from conversations.cache_rules import read_own_rules
from conversations.prompt_bill import COMPONENTS, count_prompt, find_prompt_lines
from conversations.savings.calls import OUTPUT, Break, SavingsCall
from conversations.summaries import AUXILIARY, PROBE_TOKENS
from metering.entry import CostItem

NO_PRICES: Mapping[str, Decimal] = MappingProxyType({})


class StoredColumns(Protocol):
    """The columns of a stored call that savings are computed from."""

    @property
    def id(self) -> int: ...
    @property
    def created_at(self) -> str: ...
    @property
    def agent_id(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def client(self) -> str | None: ...
    @property
    def outcome(self) -> str: ...
    @property
    def request_class(self) -> str | None: ...
    @property
    def max_tokens(self) -> int | None: ...
    @property
    def message_count(self) -> int | None: ...
    @property
    def tool_count(self) -> int | None: ...
    @property
    def request_body_length(self) -> int | None: ...
    @property
    def thread(self) -> str | None: ...
    @property
    def output_tokens(self) -> int | None: ...


class StoredBreak(Protocol):
    """The columns of a stored cache break that savings are computed from."""

    @property
    def cause(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def gap_ms(self) -> int: ...
    @property
    def extra_cost_cents(self) -> float | None: ...
    @property
    def estimated(self) -> bool: ...


def make_call(
    columns: StoredColumns,
    items: Sequence[CostItem],
    previous_id: int | None,
    cache_break: StoredBreak | None,
    *,
    listed: Mapping[str, Decimal] = NO_PRICES,
    read_elsewhere: int = 0,
) -> SavingsCall:
    """Return a call with the prices that it paid.

    Parts that it did not pay for have the price of the price list (``listed``). Raises ValueError only
    if ``created_at`` is not an instant."""
    began = datetime.fromisoformat(columns.created_at)
    lines = find_prompt_lines(items, columns.model)
    is_probe = columns.max_tokens is not None and columns.max_tokens <= PROBE_TOKENS
    return SavingsCall(
        id=columns.id,
        began_at=began.timestamp(),
        day=columns.created_at[:10],
        agent_id=columns.agent_id,
        model=columns.model,
        client=columns.client,
        outcome=columns.outcome,
        previous_id=previous_id,
        message_count=columns.message_count,
        tool_count=columns.tool_count,
        tokens=count_prompt(lines),
        output_tokens=columns.output_tokens or 0,
        prices={**listed, **_list_paid(lines), **_price_output(items)},
        cache_break=None if cache_break is None else _make_break(cache_break),
        minimum_tokens=read_own_rules().find(columns.model, began.date()).minimum_tokens,
        request_length=columns.request_body_length,
        continues_thread=columns.thread == "continue",
        is_side_call=is_probe or columns.request_class == AUXILIARY,
        read_elsewhere=read_elsewhere,
    )


def _list_paid(lines: Mapping[str, CostItem]) -> dict[str, Decimal]:
    """Return the price in cents of one token of each part of the prompt that was paid for."""
    paid: dict[str, Decimal] = {}
    for part, name in COMPONENTS.items():
        item = lines.get(name)
        if item is not None and item.quantity and item.cents is not None:
            paid[part] = item.cents / item.quantity
    return paid


def _price_output(items: Sequence[CostItem]) -> dict[str, Decimal]:
    output = [item for item in items if item.component == "output" and item.quantity]
    cents = [item.cents for item in output if item.cents is not None]
    if not output or len(cents) < len(output):
        return {}
    return {OUTPUT: sum(cents, Decimal(0)) / sum(item.quantity for item in output)}


def _make_break(found: StoredBreak) -> Break:
    extra = found.extra_cost_cents
    return Break(
        cause=found.cause,
        tokens=found.tokens,
        gap_s=found.gap_ms / 1000,
        extra_cents=None if extra is None else Decimal(str(extra)),
        is_estimated=found.estimated,
    )
