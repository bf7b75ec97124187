"""Rules about what a conversation carries: tools nobody calls, results that are there twice."""

from decimal import Decimal

import orjson
import pytest

from conversations.cache_rules import ModelRules
from conversations.savings.calls import list_chains
from conversations.savings.contents import choose_reference, read_contents
from conversations.savings.findings import find_savings
from tests.conversations.savings.calls import PRICES, make_call
from tests.conversations.sessions import MARKER, assistant, text, tool, user

LONG_TOOL = "Does much that has to be described at length. " * 120  # some 1,700 tokens


def use(number, name="Read", **given):
    return assistant({"type": "tool_use", "id": f"t{number}", "name": name, "input": given})


def result(number, words):
    return user({"type": "tool_result", "tool_use_id": f"t{number}", "content": words})


def session(messages, tools, client="claude-cli/2.1"):
    """Return the calls of a conversation that grew to these messages, two with each call, and its last
    request. Each reads what the one before left in the cache."""
    body = {"model": "m", "tools": tools, "messages": messages}
    sizes = [
        len(orjson.dumps(body | {"messages": messages[:count]})) // 4
        for count in range(1, len(messages) + 1, 2)
    ]
    calls = []
    for number, size in enumerate(sizes, 1):
        before = sizes[number - 2] if number > 1 else 0
        call = make_call(
            number,
            number,
            read=before,
            written_5m=size - before,
            tool_count=len(tools),
            request_length=size,
            client=client,
        )
        calls.append(call)
    messages[-1]["content"][-1]["cache_control"] = MARKER
    return calls, orjson.dumps(body)


def found(calls, body):
    reference = choose_reference(calls)
    assert reference is not None
    contents = {calls[0].id: read_contents(body, reference, ModelRules())}
    return {(f.kind.name, f.subject): f for f in find_savings(calls, contents)}


def talk(turns):
    messages = [user(text("Begin."))]
    for number in range(turns):
        messages += [use(number, "Bash", command="ls"), result(number, f"file {number} " * 50)]
    return messages


def test_a_server_whose_tools_were_never_called_costs_its_share_of_each_call():
    tools = [
        tool("Bash"),
        tool("mcp__tracker__list", LONG_TOOL),
        tool("mcp__tracker__add", LONG_TOOL),
    ]
    calls, body = session(talk(6), tools)
    findings = found(calls, body)
    unused = findings["unused_tools", "tracker"]
    tokens = 2 * len(orjson.dumps(tools[1])) / 4
    assert unused.calls == len(calls) == 7
    assert unused.tokens == pytest.approx(7 * tokens, rel=0.15)
    # the first call wrote them, the others read them
    cents = Decimal(unused.tokens) / 7 * (PRICES["written_5m"] + 6 * PRICES["read"])
    assert float(unused.cents) == pytest.approx(float(cents), rel=0.02)


def test_a_server_of_which_one_tool_was_called_is_used():
    tools = [
        tool("Bash"),
        tool("mcp__tracker__list", LONG_TOOL),
        tool("mcp__tracker__add", LONG_TOOL),
    ]
    messages = [*talk(5), use(9, "mcp__tracker__add"), result(9, "added")]
    assert ("unused_tools", "tracker") not in found(*session(messages, tools))


def test_tools_of_the_client_are_named_as_such_and_those_of_a_program_as_its_own():
    tools = [tool("Bash"), tool("NotebookEdit", LONG_TOOL)]
    findings = found(*session(talk(6), tools))
    assert ("client_tools", "Claude Code") in findings
    findings = found(*session(talk(6), tools, client="python-sdk/1.4"))
    assert ("unused_tools", "tools of the program") in findings


def test_few_calls_say_nothing_about_tools():
    assert found(*session(talk(2), [tool("mcp__tracker__list", LONG_TOOL)])) == {}


def test_a_result_that_is_there_already_costs_from_the_call_that_had_it_again():
    words = "def f(): return 1\n" * 200
    messages = [
        user(text("Begin.")),
        use(1, file_path="/a.py"), result(1, words),
        use(2, file_path="/a.py"), result(2, words),
        use(3, file_path="/b.py"), result(3, words + "more"),
    ]  # fmt: skip
    findings = found(*session(messages, [tool("Read")]))
    again = findings["repeated_result", "Read /a.py"]
    assert {id_ for id_, _ in again.top} == {3, 4}
    assert again.tokens == pytest.approx(2 * len(words) / 4, rel=0.15)
    assert ("repeated_result", "Read /b.py") not in findings


def test_a_large_result_is_expensive_and_no_saving():
    words = "A line of a log that somebody has to read. " * 1_400
    messages = [user(text("Begin.")), use(1, file_path="/log"), result(1, words), *talk(1)[1:]]
    large = found(*session(messages, [tool("Read")]))["large_result", "Read /log"]
    assert not large.kind.is_saving
    assert large.calls == 2


def test_without_the_body_of_a_conversation_with_tools_none_is_called_unused():
    calls, body = session(talk(6), [tool("mcp__tracker__list", LONG_TOOL)])
    other = make_call(50, 30, previous_id=None, uncached=100)
    assert [len(chain) for chain in list_chains([*calls, other])] == [7, 1]
    assert ("unused_tools", "tracker") not in found([*calls, other], body)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"messages":[{"content":[1,{"type":2}]}]}'])
def test_any_body_has_contents(body):
    call = make_call(1, 0, uncached=100, request_length=9)
    assert read_contents(body, call, ModelRules()).results == []
