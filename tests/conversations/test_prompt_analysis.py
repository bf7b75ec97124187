import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given, strategies as st

from conversations import prompt_analysis
from conversations.prompt_analysis import PromptAnalysis
from conversations.units import (
    Prompt,
    list_front_units,
    list_message_units,
    read_prompt,
)
from tests.conversations.sessions import (
    HOUR,
    LONG,
    MARKER,
    assistant,
    conversation,
    mark_last,
    text,
    tool,
    user,
)
from tests.recorded import CASES, RECORDED, needs_recorded
from wire.repeated_requests import RepeatedRequests
from wire.request import Request

ORDERS = (
    ("model", "system", "tools", "messages", "max_tokens", "metadata"),
    ("max_tokens", "messages", "model", "system", "tools", "metadata"),
    ("tools", "messages", "system", "model", "metadata", "max_tokens"),
)


class PromptReader:
    """Reads the prompts of requests of one conversation."""

    def __init__(self) -> None:
        self._requests = RepeatedRequests([PromptAnalysis()])

    def read(self, body: bytes) -> Prompt | None:
        (prompt,) = self._requests.read(body)
        return prompt  # type: ignore[no-any-return]


def write(body: dict[str, Any], order: tuple[str, ...]) -> bytes:
    return orjson.dumps({name: body[name] for name in order if name in body})


def make(turns: int, **fields: Any) -> dict[str, Any]:
    body = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "tools": [tool("Read"), tool("Bash")],
        "system": [text(LONG, MARKER)],
        "messages": conversation(turns),
        "metadata": {"user_id": "u"},
    }
    return mark_last(body | fields)


@pytest.mark.parametrize("order", ORDERS)
def test_requests_of_a_conversation_are_read_as_by_themselves(order):
    reader = PromptReader()
    steps = [
        make(3),
        make(4),
        make(4),
        make(9),
        make(5),
        make(6, tools=[tool("Read")]),
        make(7, system="Other." + LONG),
        make(7, thinking={"type": "adaptive"}),
        mark_last(make(8), HOUR),
        make(9, cache_control=HOUR),
        make(2),
    ]
    for body in steps:
        written = write(body, order)
        assert reader.read(written) == read_prompt(Request(orjson.loads(written)))


def test_only_what_is_new_is_analysed(monkeypatch):
    counted: list[int] = []

    def count(messages, first):
        given = list(messages)
        counted.append(len(given))
        return list_message_units(given, first)

    monkeypatch.setattr(prompt_analysis, "list_message_units", count)
    reader = PromptReader()
    for turns in (40, 41, 42):
        counted.clear()
        reader.read(write(make(turns), ORDERS[0]))
    assert sum(counted) <= 8


def test_a_front_after_the_messages_is_analysed_when_it_changes(monkeypatch):
    analysed: list[Request] = []

    def count(request):
        analysed.append(request)
        return list_front_units(request)

    monkeypatch.setattr(prompt_analysis, "list_front_units", count)
    reader, fronts = PromptReader(), []
    schema = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"minimum": 1}}}
    swapped = {"type": "object", "properties": {"b": {"minimum": 1}, "a": {"type": "number"}}}
    other = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"minimum": 1.0}}}
    deep: dict[str, object] = {"type": json.loads("[" * 300 + "]" * 300)}
    for turns, each in enumerate([schema, schema, swapped, other, deep, deep, schema], 20):
        body = make(turns, tools=[{"name": "Read", "input_schema": each}])
        names = ("model", "messages", "tools", "system")
        written = json.dumps({name: body[name] for name in names}, separators=(",", ":")).encode()
        analysed.clear()
        assert reader.read(written) == read_prompt(Request(orjson.loads(written)))
        fronts.append(sum("tools" in one.fields for one in analysed))
    assert fronts == [1, 0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"messages":[{"role":"user","content":"' + b"x" * 20_000,
        b'{"messages":[{"role":"user"}]]' + b" " * 20_000,
        b"[" * 600_000,
        b"\xff" * 20_000,
    ],
)
def test_what_is_no_request_has_no_prompt(body):
    assert PromptReader().read(body) is None


def test_odd_requests_are_read_as_a_whole():
    filler = " " * 20_000
    reader = PromptReader()
    twice = b'{"messages":[{"role":"user","content":"a"}],"messages":[],"x":"%s"}' % filler.encode()
    nested = b'{"x":{"messages":[{"role":"user","content":"a%s"}]},"messages":[]}' % filler.encode()
    lone = json.dumps({"messages": [user(text("\ud800" + filler)), assistant(text("b"))]}).encode()
    for body in (twice, nested, lone):
        for _ in range(2):
            prompt = reader.read(body)
            assert prompt is not None
            assert len(prompt.units) == (2 if body is lone else 0)


BLOCKS = st.lists(
    st.sampled_from(
        [
            text("a" * 3_000),
            text('{"role":"user"}' * 50),
            text("b", MARKER),
            {"type": "tool_use", "id": "t", "name": "Read", "input": {"messages": [{"role": "x"}]}},
            {"type": "tool_result", "tool_use_id": "t", "content": "c" * 2_000},
        ]
    ),
    max_size=4,
)


@given(
    st.lists(
        st.tuples(st.integers(0, 9), BLOCKS, st.sampled_from(["user", "assistant"])),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(ORDERS),
    st.booleans(),
)
def test_any_changes_between_requests_are_seen(changes, order, has_spaces):
    reader, body = PromptReader(), make(6)
    for place, blocks, role in changes:
        body = copy.deepcopy(body)
        body["messages"][place : place + 1] = [{"role": role, "content": blocks}]
        written = write(body, order)
        if has_spaces:
            written = json.dumps(orjson.loads(written)).encode()
        assert reader.read(written) == read_prompt(Request(orjson.loads(written)))


@needs_recorded
def test_recorded_requests_are_read_as_by_themselves():
    reader = PromptReader()
    for name in CASES:
        path = RECORDED / f"{name}.request.json"
        if path.exists():
            body = path.read_bytes()
            assert (
                reader.read(body) == reader.read(body) == read_prompt(Request(orjson.loads(body)))
            ), name
