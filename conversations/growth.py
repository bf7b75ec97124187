"""The growth of a conversation turn by turn, for which as few requests as possible are parsed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from conversations.context import Context
from conversations.savings.calls import SavingsCall
from conversations.timeline import Item, Timeline, Turn
from conversations.xray import Category

type Read = Callable[[SavingsCall], tuple[Context, int] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The turns of a conversation, oldest first, and the spans that cost most to carry.

    ``taken_apart`` is the number of requests that were parsed."""

    turns: Sequence[Turn]
    items: Sequence[Item]
    taken_apart: int

    @property
    def unlike(self) -> int:
        """Return the number of turns that are estimated from a request that differs from theirs."""
        return sum(not turn.is_alike for turn in self.turns)

    def sum_cents(self) -> dict[Category, float] | None:
        """Return the cost in cents of each category in all turns, or None if a price is unknown."""
        total: dict[Category, float] = {}
        for turn in self.turns:
            if turn.cents is None:
                return None
            for category, cents in turn.cents.items():
                total[category] = total.get(category, 0.0) + cents
        return total


def read_growth(
    calls: Sequence[SavingsCall], read: Read, *, most_items: int, most_read: int
) -> Growth | None:
    """Return the growth of a conversation, or None if no request can be read.

    ``read`` returns the context of a call's request and its length in bytes, None if it is not kept.
    The last request is read first. Going back, another one is read, up to ``most_read`` in all, if a
    call's request is not the beginning of the one read before."""
    counted = [call for call in calls if call.tokens.total]
    turns: list[Turn] = []
    tools: dict[int, frozenset[str]] = {}
    last: Timeline | None = None
    timeline: Timeline | None = None
    taken_apart = 0
    for call in reversed(counted):
        is_alike = timeline is not None and timeline.is_alike(call)
        if not is_alike and taken_apart < most_read and call.request_length:
            found = read(call)
            if found is not None:
                timeline, is_alike = Timeline(*found, call.tool_count), True
                taken_apart += 1
                last = last or timeline
        if timeline is not None:
            turns.append(timeline.make_turn(call, is_alike=is_alike))
            tools[call.id] = timeline.tools
    if last is None:
        return None
    alike = [turn.call for turn in turns if turn.is_alike]
    return Growth(
        turns=turns[::-1],
        items=last.list_items(alike[::-1], most_items, tools),
        taken_apart=taken_apart,
    )
