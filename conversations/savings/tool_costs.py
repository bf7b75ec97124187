"""The cost of tools in conversations: of their definitions, and of the results of their uses.

A result is written by the first call that has it in its prompt, and carried by each later one of the
conversation, which pays to read it again. Nearly all of what a call carries is read from the cache at one
price, and stands at the beginning of its prompt. So that price is noted once for all results up to there,
and the few others are priced one by one: a session of thousands of calls and results takes no time in
proportion to both.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate

from conversations.savings.calls import Chain, SavingsCall
from conversations.savings.carrying import price_part
from conversations.savings.contents import Contents, Part, Used
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
    shelf = _Shelf[Group]([each.part for each in tools])
    for call in chain:
        if call.tool_count == chain[-1].tool_count:  # others had other tools
            shelf.charge(call, find_group(call), len(tools))
    for group, place, cents in shelf.list_costs():
        costs[group, Used(*split_name(tools[place].name))].definition += cents


def _add_results[Group: Hashable](
    chain: Chain,
    found: Contents,
    find_group: Callable[[SavingsCall], Group],
    costs: defaultdict[tuple[Group, Used], ToolCost],
) -> None:
    results = sorted(found.results, key=lambda each: (each.part.message, each.part.start))
    messages = [each.part.message for each in results]
    shelf = _Shelf[Group]([each.part for each in results])
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
    """Parts of a prompt in their order, and what calls pay for the first of them."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._ends = [*accumulate((part.start + part.tokens for part in parts), max)]
        self._steps: defaultdict[Group, defaultdict[int, Decimal]] = defaultdict(
            lambda: defaultdict(Decimal)
        )
        self._others: list[tuple[Group, int, Decimal]] = []

    def charge(self, call: SavingsCall, group: Group, count: int) -> None:
        """Note that a call has the first so many parts in its prompt."""
        price = call.price("read")
        read = 0
        if price is not None:
            read = min(bisect_right(self._ends, call.count("read")), count)
            if read:
                self._steps[group][0] += price
                self._steps[group][read] -= price
        for place in range(read, count):
            cents = price_part(call, self._parts[place])
            if cents:
                self._others.append((group, place, cents))

    def list_costs(self) -> list[tuple[Group, int, Decimal]]:
        """Return what the parts cost by group, each by its place. A part may be there several times."""
        found = list(self._others)
        for group, steps in self._steps.items():
            price = NOTHING
            for place, part in enumerate(self._parts):
                price += steps.get(place, NOTHING)
                if price:
                    found.append((group, place, price * part.tokens))
        return found
