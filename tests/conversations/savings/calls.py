"""Calls of sessions for the tests of savings."""

from decimal import Decimal
from typing import Any

from conversations.savings.calls import Break, SavingsCall
from conversations.summaries import PromptTokens

# Cents of a token, at $3, $0.30, $3.75, $6 and $15 a million.
PRICES = {
    "uncached": Decimal("0.0003"),
    "read": Decimal("0.00003"),
    "written_5m": Decimal("0.000375"),
    "written_1h": Decimal("0.0006"),
    "output": Decimal("0.0015"),
}
MODEL = "claude-sonnet-4-5"


def make_call(number: int, minute: float, **changes: Any) -> SavingsCall:
    """Return a call that continues the one of the number before. Counts are given by part."""
    counts = {name: changes.pop(name) for name in PromptTokens._fields if name in changes}
    values: dict[str, Any] = {
        "id": number,
        "began_at": minute * 60,
        "day": "2026-03-01",
        "model": MODEL,
        "previous_id": number - 1 if number > 1 else None,
        "message_count": 2 * number - 1,
        "tool_count": 2,
        "tokens": PromptTokens(**counts),
        "prices": PRICES,
        "minimum_tokens": 1_024,
    }
    return SavingsCall(**(values | changes))


def expired(tokens: int, minutes: float) -> Break:
    """Return a break by a pause, after which so many tokens were written for five minutes."""
    return broken(tokens, "expired", minutes)


def broken(tokens: int, cause: str = "tools", minutes: float = 1) -> Break:
    extra = tokens * (PRICES["written_5m"] - PRICES["read"])
    return Break(cause=cause, tokens=tokens, gap_s=minutes * 60, extra_cents=extra)
