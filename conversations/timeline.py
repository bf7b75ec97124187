"""The context of a conversation turn by turn: the categories in its prompts, and their cost.

One request, a late one, is parsed. Earlier requests are the beginning of it, as far as their
numbers of messages say, so its spans up to there are theirs too. Whether that holds is checked by
the number of tools and by the length of each body: if it differs by more than a twentieth, the turn
is not ``alike``, and another request has to be parsed for it. Tokens are those of the parsed
request, scaled to the billed tokens of each call. Costs are what each call paid for the part of its
prompt."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from conversations.context import ADDED, Context
from conversations.savings.calls import SavingsCall
from conversations.token_shares import PARTS, Share
from conversations.xray import Category

MOST_OFF = 0.05
BYTES_OFF = 2_000
TOOLS: frozenset[Category] = frozenset({"tool", "deferred_tool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One call of a conversation. ``cents`` by category is None if a price is unknown.

    ``is_alike``: its body has about the length that its messages have in the parsed request."""

    call: SavingsCall
    tokens: dict[Category, float]
    cents: dict[Category, float] | None
    is_alike: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A span of a prompt with the cost of carrying it: the first call and the number of calls with it, and
    their cents."""

    share: Share
    first: SavingsCall
    calls: int
    cents: float | None


class Timeline:
    """A parsed request, from which the contexts of the calls before it are derived."""

    def __init__(self, context: Context, length: int, tool_count: int | None = None) -> None:
        """Use the context of a request, with the length in bytes of its body and the number of its tools."""
        self.length = length
        self.tool_count = tool_count
        self.shares = [each for each in context.shares if each.span.category != "envelope"]
        counts = [each.tokens for each in self.shares]
        self._ends = list(accumulate(counts, initial=context.added_before))
        self._messages = [
            -1 if each.span.message is None else each.span.message for each in self.shares
        ]
        # Of the spans from each one on, in bytes of the body; nothing after the last one.
        self._first_starts = _accumulate_back([each.span.start for each in self.shares], min)
        self._last_ends = _accumulate_back([each.span.end for each in self.shares], max)
        self._categories: list[Category] = sorted({each.span.category for each in self.shares})
        self._sums = {
            category: list(
                accumulate(
                    (each.tokens if each.span.category == category else 0 for each in self.shares),
                    initial=0,
                )
            )
            for category in self._categories
        }

    def predict_length(self, message_count: int | None) -> int:
        """Return the expected length in bytes of the body with ``message_count`` messages."""
        index = self._find_end(message_count)
        return self.length - (self._last_ends[index] - self._first_starts[index])

    def is_alike(self, call: SavingsCall) -> bool:
        """Return whether a call's body is probably the beginning of this one."""
        if not self._has_same_tools(call):
            return False
        if call.request_length is None or call.continues_thread:
            return True  # nothing says otherwise: a request of a thread sends only what is new
        off = abs(self.predict_length(call.message_count) - call.request_length)
        return off <= max(MOST_OFF * call.request_length, BYTES_OFF)

    def make_turn(self, call: SavingsCall, *, is_alike: bool) -> Turn:
        """Return the turn of a call. ``is_alike`` is the result of ``is_alike`` for the call."""
        index, total = self._find_end(call.message_count), call.tokens.total
        scale = self._find_scale(call)
        tokens = {each: self._sums[each][index] * scale for each in self._categories}
        tokens[ADDED] = max(0.0, total - sum(tokens.values()))
        cents = self._price(call, scale) if scale else None
        return Turn(
            call=call,
            tokens={each: count for each, count in tokens.items() if count},
            cents=cents,
            is_alike=is_alike,
        )

    @cached_property
    def tools(self) -> frozenset[str]:
        """Return the names of the tools of this request."""
        names = (each.span.name for each in self.shares if each.span.category in TOOLS)
        return frozenset(filter(None, names))

    def list_items(
        self, calls: Sequence[SavingsCall], count: int, tools: Mapping[int, Collection[str]]
    ) -> list[Item]:
        """Return up to ``count`` spans that probably cost most to carry, the most expensive first.

        ``tools`` are the names of the tools that each call had, by row id."""
        counts = sorted(call.message_count or 0 for call in calls)

        def weigh(index: int) -> float:
            later = len(counts) - bisect_right(counts, self._messages[index])
            return float(self.shares[index].tokens * later)

        likely = sorted(range(len(self.shares)), key=weigh, reverse=True)[:count]
        scaled = [(call, self._find_scale(call)) for call in calls]
        items = [self._carry(index, scaled, tools) for index in likely if self.shares[index].tokens]
        found = [item for item in items if item is not None]
        return sorted(found, key=lambda item: (-(item.cents or 0.0), -item.share.tokens))

    def _carry(
        self,
        index: int,
        calls: Sequence[tuple[SavingsCall, float]],
        tools: Mapping[int, Collection[str]],
    ) -> Item | None:
        start, end, message = self._ends[index], self._ends[index + 1], self._messages[index]
        span = self.shares[index].span
        carriers = [
            each
            for each in calls
            if (each[0].message_count or 0) > message
            and (span.category not in TOOLS or span.name in tools[each[0].id])
        ]
        if not carriers:
            return None
        prices = [_price_range(call, start * scale, end * scale) for call, scale in carriers]
        known = [price for price in prices if price is not None]
        return Item(
            share=self.shares[index],
            first=carriers[0][0],
            calls=len(carriers),
            cents=sum(known) if len(known) == len(prices) else None,
        )

    def _has_same_tools(self, call: SavingsCall) -> bool:
        return self.tool_count is None or call.tool_count in (None, self.tool_count)

    def _find_scale(self, call: SavingsCall) -> float:
        """Return the billed tokens of a call for each estimated token of this request, 0 without tokens."""
        whole = self._ends[self._find_end(call.message_count)]
        return call.tokens.total / whole if whole else 0.0

    def _find_end(self, message_count: int | None) -> int:
        """Return the number of spans before the messages and in the first ``message_count`` messages."""
        if message_count is None:
            return len(self.shares)
        return bisect_left(self._messages, message_count)

    def _price(self, call: SavingsCall, scale: float) -> dict[Category, float] | None:
        cents: dict[Category, float] = dict.fromkeys(self._categories, 0.0)
        paid, place = 0.0, 0.0
        for part in PARTS:
            count = call.count(part)
            price = call.price(part)
            if count and price is None:
                return None
            rate = float(price or 0)
            paid += rate * count
            for category in self._categories:
                inside = self._count(category, (place + count) / scale)
                inside -= self._count(category, place / scale)
                cents[category] += rate * inside * scale
            place += count
        cents[ADDED] = max(0.0, paid - sum(cents.values()))
        return {category: cost for category, cost in cents.items() if cost}

    def _count(self, category: Category, tokens: float) -> float:
        """Return how many of the first ``tokens`` tokens are of a category."""
        index = bisect_right(self._ends, tokens) - 1
        if index < 0:
            return 0.0
        sums = self._sums[category]
        if index >= len(self.shares):
            return float(sums[-1])
        share = self.shares[index]
        inside = tokens - self._ends[index] if share.span.category == category else 0.0
        return sums[index] + inside


def _accumulate_back(values: Sequence[int], choose: Callable[[int, int], int]) -> list[int]:
    """Return for each place the value that ``choose`` selects from there to the end; 0 after the last."""
    return [*list(accumulate(reversed(values), choose))[::-1], 0]


def _price_range(call: SavingsCall, start: float, end: float) -> float | None:
    """Return the cost in cents of the tokens between two places of a call's prompt, or None if unknown."""
    cents, before = 0.0, 0.0
    for part in PARTS:
        after = before + call.count(part)
        inside = min(end, after) - max(start, before)
        if inside > 0:
            price = call.price(part)
            if price is None:
                return None
            cents += inside * float(price)
        before = after
    return cents
