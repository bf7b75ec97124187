"""The cost of tools in conversations: of their definitions, and of the results of their uses.

A result is written by the first call that has it in its prompt, and carried by each later call of
the conversation, which pays to read it again. A prompt is billed in a few stretches, each at one
price. So that price is noted once for all parts within a stretch, and only parts across its ends
are priced one by one: the time for a session does not grow with calls times results."""

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
    """Return the cost of tools by (group, tool); the group is that of the call that pays, such as its day.

    ``contents`` are those of conversations by the id of their first call; others count as 0."""
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
    """Parts of a prompt in their order, with the costs that calls pay for them.

    ``_starts`` has the lowest beginning of each part and all after it, ``_ends`` the highest end of it
    and all before it."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._starts = [*accumulate((part.start for part in reversed(parts)), min)][::-1]
        self._ends = [*accumulate((part.start + part.tokens for part in parts), max)]
        self._steps: defaultdict[Group, defaultdict[int, Decimal]] = defaultdict(
            lambda: defaultdict(Decimal)
        )
        self._others: list[tuple[Group, int, Decimal]] = []

    def charge(self, call: SavingsCall, group: Group, count: int) -> None:
        """Charge a call for the first ``count`` parts, which are in its prompt."""
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
        """Price those parts one by one that are billed in several ways, for one call."""
        for place in range(first, end):
            cents = price_part(call, self._parts[place])
            if cents:
                self._others.append((group, place, cents))

    def list_costs(self) -> list[tuple[Group, int, Decimal]]:
        """Return (group, place of the part, cents). A part may occur several times."""
        found = list(self._others)
        for group, steps in self._steps.items():
            price = NOTHING
            for place, part in enumerate(self._parts):
                if place in steps:
                    price += steps[place]
                if price:
                    found.append((group, place, price * part.tokens))
        return found
