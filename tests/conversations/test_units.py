from typing import Any

import pytest

from conversations.parameters import Parameters
from conversations.summaries import MAX_MARKERS, MAX_UNITS, summarize_prompt
from conversations.units import Prompt, list_failed_tools, list_results, read_prompt
from metering.tool_results import ToolResult, UseResult
from tests.conversations.sessions import HOUR, MARKER, assistant, conversation, text, tool, user
from tests.recorded import CASES, RECORDED, needs_recorded
from wire.json_reading import parse_object
from wire.request import Request


def read(*messages: Any, **fields: Any) -> Prompt:
    return read_prompt(Request({"messages": list(messages), **fields}))


def digests(prompt: Prompt) -> list[bytes]:
    return [unit.digest for unit in prompt.units]


def test_units_are_in_the_order_of_the_prefix_and_not_of_the_body():
    body = {"messages": conversation(2), "system": "Be brief.", "tools": [tool("Read")]}
    prompt = read_prompt(Request(body))
    places = [(unit.level, unit.message, unit.block, unit.role) for unit in prompt.units]
    assert places == [
        ("tools", -1, 0, ""),
        ("system", -1, 0, ""),
        ("messages", 0, 0, "user"),
        ("messages", 1, 0, "assistant"),
        ("messages", 2, 0, "user"),
    ]
    assert digests(read_prompt(Request(dict(reversed(body.items()))))) == digests(prompt)


def call_of(name: str, id_: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": id_, "name": name, "input": {}}


def result_of(id_: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": "x" * 30, **fields}


def test_results_of_an_answer_have_the_places_of_its_uses():
    prompt = read(
        user(text("Mend it.")),
        assistant(text("Aye."), call_of("Read", "1"), call_of("search", "s", "server_tool_use")),
        user(result_of("1")),
        assistant(call_of("mcp__maps__find", "2"), call_of("Bash", "3")),
        user(result_of("3", is_error=True), result_of("2"), result_of("elsewhere"), text("Go on.")),
        assistant(call_of("Read", "4")),
        user(result_of("4")),
    )
    assert list_results(prompt, 1) == [UseResult(0, "Read", ToolResult(10))]
    assert list_results(prompt, 3) == [
        UseResult(1, "Bash", ToolResult(10, "x" * 30)),
        UseResult(0, "find", ToolResult(10)),
    ]
    assert list_results(prompt, 4) == []
    assert list_results(prompt, 9) == []
    assert list_failed_tools(prompt, 2) == ["Bash"]


def test_without_its_attribution_block_a_prompt_is_what_the_model_was_given():
    system = [text("x-anthropic-billing-header: a"), text("Be brief.", MARKER)]
    tools = [tool("Read"), {**tool("Bash"), "cache_control": HOUR}]
    sent, other = (
        read(user(text("Hello", MARKER)), system=each, tools=tools) for each in (system, system[1:])
    )
    given = sent.without_attribution()
    assert (digests(given), given.run, given.front) == (digests(other), other.run, other.front)
    assert (given.markers, len(given.units)) == (other.markers, len(sent.units) - 1)
    assert other.without_attribution() is other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"messages": [user(text("a"))]}, {"messages": [{"role": "user", "content": "a"}]}),
        ({"system": [text("a")]}, {"system": "a"}),
        ({"system": [text("a", MARKER)]}, {"system": [text("a", HOUR)]}),
        ({"tools": [tool("a") | {"cache_control": MARKER}]}, {"tools": [tool("a")]}),
        ({"tools": [tool("a") | {"cache_control": None}]}, {"tools": [tool("a")]}),
        ({"tools": [tool("a"), tool("b") | {"defer_loading": True}]}, {"tools": [tool("a")]}),
        (
            {"messages": [user({"type": "tool_result", "tool_use_id": "t", "content": "x"})]},
            {
                "messages": [
                    user(
                        {"type": "tool_result", "tool_use_id": "t", "content": [text("x", MARKER)]}
                    )
                ]
            },
        ),
        (
            {"system": [text("x-anthropic-billing-header: a"), text("b")]},
            {"system": [text("x-anthropic-billing-header: c"), text("b")]},
        ),
        (
            {"messages": [{"role": "system", "content": "a", "clear_at": "next_user_message"}]},
            {"messages": [{"role": "system", "content": "a"}]},
        ),
        (
            {"messages": [], "compaction": {"type": "summarize"}},
            {"messages": []},
        ),
        (
            {"mcp_servers": [{"name": "a", "authorization_token": "one"}]},
            {"mcp_servers": [{"name": "a", "authorization_token": "two"}]},
        ),
    ],
)
def test_what_is_no_part_of_the_prompt_is_left_out(one, other):
    first, second = (read_prompt(Request(each)).without_attribution() for each in (one, other))
    assert digests(first) == digests(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"messages": [user(text("a"))]}, {"messages": [assistant(text("a"))]}),
        ({"messages": [user(text("a"))]}, {"messages": [user(text("A"))]}),
        (
            {"messages": [assistant({"type": "tool_use", "input": {"cache_control": 1}})]},
            {"messages": [assistant({"type": "tool_use", "input": {}})]},
        ),
        (
            {"tools": [{"name": "a", "input_schema": {"properties": {"cache_control": {}}}}]},
            {"tools": [{"name": "a", "input_schema": {"properties": {}}}]},
        ),
        (
            {"messages": [user(), {"role": "system", "output_config": {"effort": "low"}}]},
            {"messages": [user()]},
        ),
        ({"system": "x-anthropic-billing-header: a"}, {"system": "x-anthropic-billing-header: b"}),
        ({"system": [text("b"), text("x-anthropic-billing-header: a")]}, {"system": [text("b")]}),
    ],
)
def test_what_the_model_reads_makes_a_difference(one, other):
    first, second = (read_prompt(Request(each)).without_attribution() for each in (one, other))
    assert digests(first) != digests(second)


def test_markers_have_their_place_and_lifetime():
    result = {"type": "tool_result", "tool_use_id": "t", "content": [text("x", HOUR)]}
    prompt = read(user(text("a", MARKER), text("b")), user(result), tools=[tool("c")])
    assert [(marker.place, marker.ttl) for marker in prompt.markers] == [(1, "5m"), (3, "1h")]


def test_automatic_caching_passes_over_thinking_and_empty_text():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    prompt = read(user(text("a")), assistant(text("b"), thought, text("")), cache_control=HOUR)
    assert [(marker.place, marker.ttl) for marker in prompt.markers] == [(1, "1h")]
    assert read(assistant(thought), cache_control=HOUR).markers == []


def test_images_and_signatures_weigh_what_they_are_in_tokens():
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 900_000}
    nested = {"type": "tool_result", "content": [{"type": "image", "source": source}]}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s" * 9_000}
    prompt = read(user({"type": "image", "source": source}, nested), assistant(thought))
    assert [unit.images for unit in prompt.units] == [1, 1, 0]
    assert [unit.size < 6_500 for unit in prompt.units] == [True] * 3
    assert prompt.parameters.images == 2


def test_settings_that_are_stated_with_their_default_are_those_of_a_bare_request():
    stated = {
        "speed": "standard",
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
        "thinking": {"type": "disabled"},
        "output_config": {"effort": "high"},
    }
    assert read(**stated).parameters == read().parameters == Parameters()


def test_a_summary_is_small_and_bounded():
    prompt = read(*(user(text(f"{n}", MARKER)) for n in range(300)))
    assert summarize_prompt(prompt).memory_bytes < 5_000
    assert len(summarize_prompt(prompt).markers) == MAX_MARKERS
    vast = read(*(user(text(f"{n}")) for n in range(MAX_UNITS + 500)))
    assert summarize_prompt(vast).unit_count == MAX_UNITS
    assert summarize_prompt(vast).memory_bytes < 50_000


@needs_recorded
def test_recorded_requests_have_a_unit_for_each_block():
    seen = 0
    for name in CASES:
        path = RECORDED / f"{name}.request.json"
        if not path.exists():
            continue
        body = parse_object(path.read_bytes()) or {}
        prompt = read_prompt(Request(body))
        messages: Any = body["messages"]
        blocks = [m["content"] if isinstance(m["content"], list) else [0] for m in messages]
        assert len([u for u in prompt.units if u.message >= 0]) == sum(map(len, blocks)), name
        seen += 1
    assert seen > 30
