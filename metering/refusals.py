"""Refusals, and which are billed although no output came before them.

A refusal is a response with the stop reason ``refusal``, or the end of one model's turn in a chain of
fallbacks. After output began it is billed like any other. Before, its category and its day decide.

Sources, as read on 2026-11-21:
- https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback, "How refusals are
  billed", and the column "Billed before any output" of its table of categories
- https://platform.claude.com/docs/en/release-notes/overview, June 2 and September 24, 2026.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime

STOP_REASON = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """The categories that are billed before output from a day on, None for every category."""

    starts: date
    billed: frozenset[str] | None


# Newest first. A category that upstream adds later is not billed until it is listed here, and so is
# a refusal without a category: "in any other category, or with a null category, is not billed".
_RULES = (
    _Rule(
        starts=date(2026, 9, 24),
        billed=frozenset({"bio", "frontier_llm", "reasoning_extraction"}),
    ),
    _Rule(starts=date(2026, 6, 2), billed=frozenset()),
    _Rule(starts=date.min, billed=None),
)


def is_billed_before_output(category: str | None, at: datetime) -> bool:
    """Return whether the input of a refusal without output is billed, by its category and day."""
    day = at.astimezone(UTC).date()
    billed = next(rule.billed for rule in _RULES if rule.starts <= day)
    return billed is None or category in billed
