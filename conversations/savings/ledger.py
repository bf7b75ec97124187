"""The ledger of tokens that findings have claimed: each token of a call is blamed once.

A finding gets what is left of what it asks for, so the cost of all findings is never more than what the
calls cost.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from conversations.savings.calls import OUTPUT, SavingsCall
from conversations.savings.kinds import Kind
from conversations.token_shares import PARTS

# Of a rewritten prefix, what was written comes first, for an hour before for five minutes.
REWRITTEN = ("written_1h", "written_5m", "uncached")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Tokens of one call that a finding has. ``cents`` is None where a price is not known."""

    kind: Kind
    subject: str
    call: SavingsCall
    tokens: int
    cents: Decimal | None


class Ledger:
    """The tokens of each call that nothing has claimed yet, and the claims."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self._taken: dict[tuple[int, str], int] = {}

    def count_left(self, call: SavingsCall, part: str) -> int:
        """Return how many tokens of a part nothing has claimed."""
        total = call.output_tokens if part == OUTPUT else getattr(call.tokens, part)
        return int(total) - self._taken.get((call.id, part), 0)

    def take(self, call: SavingsCall, part: str, tokens: int) -> int:
        """Claim up to a number of tokens of a part; return how many are claimed."""
        granted = max(0, min(tokens, self.count_left(call, part)))
        key = call.id, part
        self._taken[key] = self._taken.get(key, 0) + granted
        return granted

    def take_rewritten(self, call: SavingsCall, tokens: int) -> int:
        """Claim up to a number of tokens that were paid for again; return how many are claimed."""
        granted = 0
        for part in REWRITTEN:
            granted += self.take(call, part, tokens - granted)
        return granted

    def take_all(self, call: SavingsCall) -> tuple[int, Decimal | None]:
        """Claim all that is left of a call; return its tokens and what they cost."""
        return self._price(
            call, ((part, self.take(call, part, 10**12)) for part in (*PARTS, OUTPUT))
        )

    def take_place(self, call: SavingsCall, start: int, tokens: int) -> tuple[int, Decimal | None]:
        """Claim the tokens at a place of the prompt; return how many were left and what they cost."""
        parts = call.find_parts(start, tokens)
        return self._price(call, ((part, self.take(call, part, count)) for part, count in parts))

    def note(
        self, kind: Kind, call: SavingsCall, tokens: int, cents: Decimal | None, subject: str = ""
    ) -> None:
        """Note a claim, unless there is nothing in it."""
        if tokens > 0:
            self.claims.append(
                Claim(kind=kind, subject=subject, call=call, tokens=tokens, cents=cents)
            )

    @staticmethod
    def _price(call: SavingsCall, counts: Iterable[tuple[str, int]]) -> tuple[int, Decimal | None]:
        total, cents = 0, Decimal(0)
        is_known = True
        for part, count in counts:
            price = call.price(part)
            total += count
            if count and price is None:
                is_known = False
            cents += count * (price or 0)
        return total, cents if is_known else None
