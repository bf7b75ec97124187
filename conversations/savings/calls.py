"""The calls of a session in the form that the rules of savings need."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from conversations.summaries import NO_TOKENS, PromptTokens
from conversations.token_shares import PARTS, Part

OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A stored cache break. ``extra_cents`` is None if a price is unknown."""

    cause: str
    tokens: int
    gap_s: float
    extra_cents: Decimal | None
    is_estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsCall:
    """One call of a session.

    ``began_at`` is in seconds since 1970; ``previous_id`` is the call that this one continues.
    ``prices`` are the known prices in cents of one token by part of the bill, and of ``output``.
    ``is_side_call``: the call is no turn of a conversation. ``read_elsewhere`` is the largest number of
    tokens written by this call that a call of another session may have read."""

    id: int
    began_at: float
    day: str
    agent_id: str | None = None
    model: str | None = None
    client: str | None = None
    outcome: str = "complete"
    previous_id: int | None = None
    message_count: int | None = None
    tool_count: int | None = None
    tokens: PromptTokens = NO_TOKENS
    output_tokens: int = 0
    prices: Mapping[str, Decimal] = field(default_factory=dict)
    cache_break: Break | None = None
    minimum_tokens: int | None = None
    request_length: int | None = None
    continues_thread: bool = False
    is_side_call: bool = False
    read_elsewhere: int = 0

    def count(self, part: Part) -> int:
        """Return the number of tokens of the prompt that were billed as ``part``."""
        return int(getattr(self.tokens, part))

    def price(self, part: str) -> Decimal | None:
        """Return the price in cents of one token of this part of the bill, or None if unknown."""
        return self.prices.get(part)

    def price_change(self, part: str, other: str) -> Decimal | None:
        """Return the price of a token of ``part`` minus that of ``other`` in cents, or None if unknown."""
        price, instead = self.price(part), self.price(other)
        return None if price is None or instead is None else price - instead

    def find_parts(self, start: int, count: int) -> list[tuple[Part, int]]:
        """Return (part of the bill, tokens) for the ``count`` tokens of the prompt from ``start`` on."""
        found: list[tuple[Part, int]] = []
        end, before = start + count, 0
        for part in PARTS:
            size = self.count(part)
            inside = min(end, before + size) - max(start, before)
            if inside > 0:
                found.append((part, inside))
            before += size
        return found


type Chain = Sequence[SavingsCall]


def list_chains(calls: Iterable[SavingsCall]) -> list[list[SavingsCall]]:
    """Return the conversations among the calls of a session, each in the order in which its calls began.

    A call belongs to the conversation of the call that it continues. Side calls are left out."""
    chains: dict[int, list[SavingsCall]] = {}
    for call in sorted(calls, key=lambda each: (each.began_at, each.id)):
        if call.is_side_call:
            continue
        chain = chains.get(call.previous_id or 0, [])
        chain.append(call)
        chains[call.id] = chain
    return list({id(chain): chain for chain in chains.values()}.values())
