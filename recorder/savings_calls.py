"""Calls of a session for the rules of savings, with their prices and contents."""

import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from conversations.cache_rules import read_own_rules
from conversations.prompt_bill import COMPONENTS
from conversations.savings.calls import OUTPUT, Chain, SavingsCall
from conversations.savings.contents import Contents, choose_reference, read_contents
from conversations.savings.kinds import MIN_TOKENS
from conversations.savings.stored_calls import make_call
from metering.billed_passes import Call
from metering.entry import CostItem
from metering.prices import PriceTable
from metering.pricing import price_call
from runtime import clock
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls import threads
from store.traces.savings import savings_calls
from store.traces.savings.savings_calls import CallColumns, SessionCall

MAX_BODY_BYTES = 2 * 1024 * 1024  # taken apart in some 0.2 s
MAX_SESSION_BYTES = 6 * 1024 * 1024
LIFETIMES = {"5m": timedelta(minutes=5), "1h": timedelta(hours=1)}
_PRICED: dict[str, str] = {**{str(part): name for part, name in COMPONENTS.items()}, OUTPUT: OUTPUT}


def read_calls(
    connection: sqlite3.Connection, session_id: str, prices: PriceTable
) -> list[SavingsCall]:
    """Return the newest calls of a session, oldest first. Raises sqlite3.Error."""
    stored = savings_calls.read_calls(connection, session_id)
    pricer = _Pricer(prices)
    continued = {each.previous_id for each in stored}
    return [
        make_call(
            each.columns,
            each.items,
            each.previous_id,
            each.cache_break,
            listed=pricer.list_prices(each.columns, each.items),
            read_elsewhere=0
            if each.columns.id in continued
            else _count_read_elsewhere(connection, session_id, each),
        )
        for each in stored
    ]


def read_contents_of(
    connection: sqlite3.Connection, chains: Sequence[Chain]
) -> dict[int, Contents]:
    """Return the contents of conversations by the row id of the first call.

    The longest conversations are read first, up to ``MAX_SESSION_BYTES``; others are left out."""
    found: dict[int, Contents] = {}
    left = MAX_SESSION_BYTES
    for chain in sorted(chains, key=len, reverse=True):
        call = choose_reference(chain)
        if call is None or not 0 < (call.request_length or 0) <= min(left, MAX_BODY_BYTES):
            continue
        try:
            whole = threads.read_whole_request(connection, call.id)
        except MissingPieceError:
            continue  # `taximeter verify` reports it; the other conversations have findings
        if whole is not None and whole.gap is None:
            body = whole.body
            left -= len(body)
            day = datetime.fromisoformat(call.day).date()
            found[chain[0].id] = read_contents(body, call, read_own_rules().find(call.model, day))
    return found


class _Pricer:
    """The price of one token by part of the bill. Calls of one model, day and size share results."""

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self._known: dict[tuple[object, ...], dict[str, Decimal]] = {}

    def list_prices(self, call: CallColumns, items: Sequence[CostItem]) -> dict[str, Decimal]:
        """Return the prices in the price list for a call, by part of the bill."""
        prompt_tokens = items[0].prompt_tokens if items else 0
        day = call.created_at[:10]
        key = (
            call.model,
            day,
            call.service_tier,
            call.speed,
            call.inference_geo,
            call.upstream,
            prompt_tokens,
        )
        if key not in self._known:
            self._known[key] = self._compute(call, prompt_tokens)
        return self._known[key]

    def _compute(self, call: CallColumns, prompt_tokens: int) -> dict[str, Decimal]:
        bill = Call(
            created_at=clock.parse_instant(call.created_at),
            outcome=call.outcome,
            status_code=call.status_code,
            usage_source=call.usage_source,
            model=call.model,
            service_tier=call.service_tier,
            speed=call.speed,
            inference_geo=call.inference_geo,
            items=[CostItem(0, call.model, name, 1, prompt_tokens) for name in _PRICED.values()],
            upstream=call.upstream,
        )
        items, _ = price_call(bill, self._prices)
        return {
            part: item.cents
            for part, item in zip(_PRICED, items, strict=True)
            if item.cents is not None
        }


def _count_read_elsewhere(
    connection: sqlite3.Connection, session_id: str, stored: SessionCall
) -> int:
    call = stored.columns
    if (call.cache_creation_input_tokens or 0) < MIN_TOKENS:
        return 0
    lifetime = LIFETIMES["1h" if call.cache_write_1h_tokens else "5m"]
    until = clock.format_ms(clock.parse_instant(call.created_at) + lifetime)
    return savings_calls.count_read_elsewhere(connection, call, session_id, until)
