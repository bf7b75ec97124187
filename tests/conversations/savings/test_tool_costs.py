"""The cost of tools, beside a count of each part in each call."""

from collections import defaultdict
from decimal import Decimal

from hypothesis import given, strategies as st

from conversations.cache_rules import ModelRules
from conversations.savings.carrying import list_carriers, price_part
from conversations.savings.contents import Contents, Part, Result, Tool, Used, read_contents
from conversations.savings.tool_costs import ToolCost, cost_tools
from metering.tool_names import split_name
from tests.conversations.savings.calls import make_call
from tests.conversations.savings.test_carrying import result, session, talk, use
from tests.conversations.sessions import text, tool, user


def find_day(call):
    return call.day


def count_each(chain, found):
    """Return the same costs, of each part in each call by itself."""
    costs: defaultdict[tuple[str, Used], ToolCost] = defaultdict(ToolCost)
    for each in found.tools:
        for call in chain:
            if call.tool_count == chain[-1].tool_count:
                key = call.day, Used(*split_name(each.name))
                costs[key].definition += price_part(call, each.part) or 0
    for each in found.results:
        carriers = list_carriers(chain, each.part)
        for place, call in enumerate(carriers):
            cost = costs[call.day, each.used]
            cents = price_part(call, each.part) or 0
            if place:
                cost.carried += cents
            else:
                cost.written += cents
    return dict(costs)


def test_a_result_is_written_once_and_carried_to_the_end():
    tools = [tool("Read"), tool("mcp__tracker__list")]
    messages = [user(text("Begin.")), use(9, path="/a.py"), result(9, "line " * 400), *talk(3)[1:]]
    calls, body = session(messages, tools)
    found = read_contents(body, calls[-1], ModelRules())
    costs = cost_tools([calls], {calls[0].id: found}, find_day)
    (day,) = {call.day for call in calls}
    (part,) = [each.part for each in found.results if each.used == ("", "Read", "/a.py")]
    read = costs[day, Used("", "Read", "/a.py")]
    assert read.written == price_part(calls[1], part)
    assert read.carried == sum(price_part(call, part) or 0 for call in calls[2:])
    assert read.definition == 0
    assert costs[day, Used("tracker", "list")].definition > 0
    assert costs[day, Used("", "Bash", "ls")].written > 0
    assert costs == {
        key: each for key, each in count_each(calls, found).items() if each != ToolCost()
    }


def test_conversations_whose_contents_are_not_known_cost_nothing():
    calls, _ = session(talk(3), [tool("Bash")])
    assert cost_tools([calls], {}, find_day) == {}


_SIZES = st.integers(0, 40)


@st.composite
def conversations(draw):
    """Return calls in any order of lengths, with breaks of the cache, and parts of their prompts."""
    calls = [
        make_call(
            number,
            number,
            read=draw(st.integers(0, 400)),
            written_5m=draw(_SIZES),
            tool_count=draw(st.sampled_from([2, 2, 3])),
            message_count=draw(st.integers(0, 12)),
            day=draw(st.sampled_from(["2026-01-02", "2026-01-03"])),
        )
        for number in range(1, draw(st.integers(2, 7)))
    ]
    tools, results, start = [], [], draw(_SIZES)
    for number in range(draw(st.integers(0, 4))):
        size = draw(_SIZES)
        part = Part(start=start, tokens=size)
        tools.append(Tool(name=f"mcp__s__{number % 3}", server="s", part=part))
        start += size
    for message in sorted(draw(st.lists(st.integers(0, 9), max_size=8))):
        size = draw(_SIZES)
        part = Part(start=start, tokens=size, message=message)
        used = Used("", "Read", f"/{message % 3}")
        results.append(Result(tool="Read", used=used, digest=b"", part=part))
        start += size + draw(_SIZES)
    return calls, Contents(tools=tools, called=frozenset(), results=results)


@given(conversations())
def test_costs_are_those_of_each_part_in_each_call(drawn):
    calls, found = drawn
    costs = cost_tools([calls], {calls[0].id: found}, find_day)
    expected = count_each(calls, found)
    for key in costs.keys() | expected.keys():
        assert costs.get(key, ToolCost()) == expected.get(key, ToolCost()), key
    assert all(isinstance(each.carried, Decimal) for each in costs.values())
