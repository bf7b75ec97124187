"""The ledger of tokens that findings have claimed: each token of a call is claimed once.

A finding gets at most the tokens that are left, so the cost of all findings is never more than the
cost of the calls."""

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
    """Tokens of one call that a finding has claimed. ``cents`` is None if a price is unknown."""

    kind: Kind
    subject: str
    call: SavingsCall
    tokens: int
    cents: Decimal | None


class Ledger:
    """The claims of findings, and the tokens of each call that are not claimed yet."""

    def __init__(self) -> None:
        self.claims: list[Claim] = []
        self._taken: dict[tuple[int, str], int] = {}

    def count_left(self, call: SavingsCall, part: str) -> int:
        """Return the number of tokens of a part of the bill that are not claimed yet."""
        total = call.output_tokens if part == OUTPUT else getattr(call.tokens, part)
        return int(total) - self._taken.get((call.id, part), 0)

    def take(self, call: SavingsCall, part: str, tokens: int) -> int:
        """Claim up to ``tokens`` tokens of a part of the bill; return how many of them were claimed.

        It is less if other findings have claimed tokens of that part before."""
        granted = max(0, min(tokens, self.count_left(call, part)))
        key = call.id, part
        self._taken[key] = self._taken.get(key, 0) + granted
        return granted

    def take_rewritten(self, call: SavingsCall, tokens: int) -> int:
        """Claim up to ``tokens`` tokens that were paid for again; return how many of them were claimed."""
        granted = 0
        for part in REWRITTEN:
            granted += self.take(call, part, tokens - granted)
        return granted

    def take_all(self, call: SavingsCall) -> tuple[int, Decimal | None]:
        """Claim all remaining tokens of a call; return their number and their cost in cents."""
        return self._price(
            call, ((part, self.take(call, part, 10**12)) for part in (*PARTS, OUTPUT))
        )

    def take_place(self, call: SavingsCall, start: int, tokens: int) -> tuple[int, Decimal | None]:
        """Claim ``tokens`` tokens of the prompt from token ``start`` on.

        Returns how many of them were claimed, and their cost in cents (None if unknown)."""
        parts = call.find_parts(start, tokens)
        return self._price(call, ((part, self.take(call, part, count)) for part, count in parts))

    def note(
        self, kind: Kind, call: SavingsCall, tokens: int, cents: Decimal | None, subject: str = ""
    ) -> None:
        """Add a claim, unless it has no tokens."""
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
