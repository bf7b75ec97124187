"""The cost of tools in conversations: of their definitions, and of the results of their uses.

A result is written by the first call that has it in its prompt, and carried by each later one of the
conversation, which pays to read it again. A prompt is billed in a few stretches, each at one price. So that
price is noted once for all parts that are within a stretch, and only those across its ends are priced one
by one: a session of thousands of calls and results takes no time in proportion to both.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate

from conversations.savings.calls import Chain, SavingsCall
from conversations.savings.carrying import price_part
from conversations.savings.contents import Contents, Part, Used
from conversations.token_shares import PARTS
from metering.tool_names import split_name

NOTHING = Decimal(0)


@dataclass(slots=True)
class ToolCost:
    """The cost of a tool in US cents, of tokens with a known price."""

    definition: Decimal = NOTHING
    written: Decimal = NOTHING
    carried: Decimal = NOTHING


type Costs[Group: Hashable] = dict[tuple[Group, Used], ToolCost]


def cost_tools[Group: Hashable](
    chains: Iterable[Chain],
    contents: Mapping[int, Contents],
    find_group: Callable[[SavingsCall], Group],
) -> Costs[Group]:
    """Return what tools cost by the group of the call that pays, such as its day.

    ``contents`` are those of conversations by the id of their first call; others cost nothing here."""
    costs: defaultdict[tuple[Group, Used], ToolCost] = defaultdict(ToolCost)
    for chain in chains:
        found = contents.get(chain[0].id)
        if found is not None:
            _add_definitions(chain, found, find_group, costs)
            _add_results(chain, found, find_group, costs)
    return dict(costs)


def _add_definitions[Group: Hashable](
    chain: Chain,
    found: Contents,
    find_group: Callable[[SavingsCall], Group],
    costs: defaultdict[tuple[Group, Used], ToolCost],
) -> None:
    tools = sorted(found.tools, key=lambda each: each.part.start)
    shelf: _Shelf[Group] = _Shelf([each.part for each in tools])
    for call in chain:
        if call.tool_count == chain[-1].tool_count:  # others had other tools
            shelf.charge(call, find_group(call), len(tools))
    used = [Used(*split_name(each.name)) for each in tools]
    for group, place, cents in shelf.list_costs():
        costs[group, used[place]].definition += cents


def _add_results[Group: Hashable](
    chain: Chain,
    found: Contents,
    find_group: Callable[[SavingsCall], Group],
    costs: defaultdict[tuple[Group, Used], ToolCost],
) -> None:
    results = sorted(found.results, key=lambda each: (each.part.message, each.part.start))
    messages = [each.part.message for each in results]
    shelf: _Shelf[Group] = _Shelf([each.part for each in results])
    written = 0
    for call in chain:
        group = find_group(call)
        had = bisect_right(messages, (call.message_count or 0) - 1)
        shelf.charge(call, group, min(had, written))
        for each in results[written:had]:
            costs[group, each.used].written += price_part(call, each.part) or NOTHING
        written = max(written, had)
    for group, place, cents in shelf.list_costs():
        costs[group, results[place].used].carried += cents


class _Shelf[Group: Hashable]:
    """Parts of a prompt in their order, and what calls pay for the first of them.

    ``_starts`` and ``_ends`` bound where a part and all after it begin, and where it and all before it end.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._starts = [*accumulate((part.start for part in reversed(parts)), min)][::-1]
        self._ends = [*accumulate((part.start + part.tokens for part in parts), max)]
        self._steps: defaultdict[Group, defaultdict[int, Decimal]] = defaultdict(
            lambda: defaultdict(Decimal)
        )
        self._others: list[tuple[Group, int, Decimal]] = []

    def charge(self, call: SavingsCall, group: Group, count: int) -> None:
        """Note that a call has the first ``count`` parts in its prompt."""
        steps = self._steps[group]
        place = start = 0
        for billed_as in PARTS:
            if place >= count:
                return
            end = start + call.count(billed_as)
            if end == start:
                continue
            first = min(bisect_left(self._starts, start, place), count)
            self._charge_each(call, group, place, first)
            place = max(first, min(bisect_right(self._ends, end, first), count))
            price = call.price(billed_as)
            if price is not None and place > first:
                steps[first] += price
                steps[place] -= price
            start = end
        self._charge_each(call, group, place, min(bisect_left(self._starts, start, place), count))

    def _charge_each(self, call: SavingsCall, group: Group, first: int, end: int) -> None:
        """Price parts one by one, of which some of a prompt is billed in one way and some in another."""
        for place in range(first, end):
            cents = price_part(call, self._parts[place])
            if cents:
                self._others.append((group, place, cents))

    def list_costs(self) -> list[tuple[Group, int, Decimal]]:
        """Return what the parts cost by group, each by its place. A part may be there several times."""
        found = list(self._others)
        for group, steps in self._steps.items():
            price = NOTHING
            for place, part in enumerate(self._parts):
                if place in steps:
                    price += steps[place]
                if price:
                    found.append((group, place, price * part.tokens))
        return found
