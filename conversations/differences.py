"""The first difference between two prompts that lies in the cached prefix of the first one."""

from typing import NamedTuple

from conversations.summaries import PromptSummary
from conversations.unit import LEVELS, Level


class Difference(NamedTuple):
    """The first unit in which two prompts differ: its index in each, and in its level."""

    level: Level
    before: int
    now: int
    is_order: bool


def find_difference(before: PromptSummary, now: PromptSummary) -> Difference | None:
    """Return the first difference inside the cached prefix of the predecessor, or None.

    Tools and system prompt must be the same as a whole, messages only within the prefix. A prompt that
    ends earlier (the conversation went back) does not differ."""
    limit = before.markers[-1].place + 1 if before.markers else before.unit_count
    for level, ours, theirs in zip(LEVELS, before.levels, now.levels, strict=True):
        if limit <= ours.start:
            return None
        old = before.list_units(ours.start, min(ours.stop, limit))
        new = now.list_units(theirs.start, theirs.stop)
        if limit <= ours.stop or level == "messages":
            new = new[: len(old)]
        if level == "messages":
            old = old[: len(new)]
        if old != new:
            equal = [one == other for one, other in zip(old, new, strict=False)]
            place = equal.index(False) if False in equal else len(equal)
            is_order = place < len(equal) and old[place].digest == new[place].digest
            return Difference(level, ours.start + place, theirs.start + place, is_order)
    return None
