"""The texts in the pieces of requests."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from store.traces.bodies import pieces
from store.traces.search.walk import Step, read_piece
from tests.store.traces.search.conversation import (
    assistant,
    request,
    tool_call,
    tool_result,
    user,
)
from tests.store.traffic import agent_requests
from wire.request_strings import Position


def cut(body):
    return [body[start:end] for each in pieces.split(body) for start, end in each.spans]


def walk(parts):
    """The steps over the parts of a body, each with what is walked."""
    position = Position()
    return [(part, Step(position, part)) for part in parts]


def read(body):
    return [text for _, step in walk(cut(body)) for text in step.texts]


def test_each_text_has_the_role_of_who_said_it():
    tool = {"name": "Bash", "description": "Runs", "input_schema": {"type": "object"}}
    body = request(
        user("please"),
        assistant("at once", tool_call(1, command="ls", nested={"id": "deep"})),
        tool_result(1, [{"type": "text", "text": "a file"}]),
        {"role": "system", "content": "a reminder"},
        system=[{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}],
        tools=[tool],
    )
    assert read(body) == [
        ("user", "please"),
        ("assistant", "at once"),
        ("assistant", "Bash"),
        ("assistant", "ls"),
        ("assistant", "deep"),
        ("tool_result", "a file"),
        ("system", "a reminder"),
        ("system", "be kind"),
        ("tool", "Bash"),
        ("tool", "Runs"),
    ]


def test_a_role_or_type_may_come_after_its_text():
    body = b"""{"messages": [
        {"content": "first", "role": "assistant"},
        {"content": [{"content": "found", "type": "tool_result"},
                     {"text": "then", "cache_control": {"type": "ephemeral"}, "type": "text"}],
         "role": "user"}]}"""
    assert read(body) == [("assistant", "first"), ("tool_result", "found"), ("user", "then")]


def test_escapes_are_decoded():
    body = request(user('a\nsecond "quoted" é \u4e2d \U0001f600 \\n'))
    assert read(body) == [("user", 'a\nsecond "quoted" é \u4e2d \U0001f600 \\n')]


def test_half_a_character_and_bytes_that_are_no_text_are_replaced():
    body = b'{"messages":[{"role":"user","content":"half \\ud83d here \\q \xff end"}]}'
    ((role, text),) = read(body)
    assert role == "user"
    assert text.encode().decode() == text
    assert text.startswith("half ")
    assert text.endswith(" end")


def test_names_ids_signatures_and_images_are_left_out():
    image = {"type": "image", "source": {"type": "base64", "media_type": "a/b", "data": "A" * 400}}
    thinking = {"type": "thinking", "thinking": "hmm", "signature": "c2ln"}
    body = request(
        user([image, {"type": "text", "text": "see"}]),
        assistant(thinking),
        metadata={"user_id": "someone"},
        stop_sequences=["halt"],
    )
    assert read(body) == [("user", "see"), ("assistant", "hmm")]


def test_text_that_contains_json_is_one_text_in_two_pieces():
    inner = json.dumps({"messages": [{"role": "user", "content": [{"text": "inner"}]}]})
    body = request(user(f"before {inner} after"), assistant("end"))
    found = read(body)
    assert {role for role, _ in found[:-1]} == {"user"}
    assert "".join(text for _, text in found[:-1]) == f"before {inner} after"
    assert found[-1] == ("assistant", "end")


@pytest.mark.parametrize("body", list(agent_requests(4)))
def test_the_texts_of_agents_are_all_found(body):
    document = json.loads(body)
    said = "\n".join(text for _, text in read(body))
    for message in document["messages"]:
        for block in message["content"]:
            assert (block.get("text") or block.get("content") or block["name"]) in said


def is_read_again(parts):
    return all(read_piece(part, step.recipe) == step.texts for part, step in walk(parts))


VALUES: Any = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "type", "text", "input", "id", "messages"]),
            inner | st.sampled_from(["user", "assistant", "tool_result", "tool_use"]),
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(st.lists(VALUES, max_size=4), VALUES, st.data())
def test_a_recipe_finds_the_same_texts_wherever_a_body_is_cut(messages, system, data):
    body = json.dumps({"messages": messages, "system": system}).encode()
    at = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    parts = [body[start:end] for start, end in zip([0, *at], [*at, len(body)], strict=True)]
    assert is_read_again(parts)
    assert is_read_again(cut(body))


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b'{"messages":[', b'{"role":', b'"'])))
def test_any_bytes_can_be_walked(parts):
    assert is_read_again(parts)


@pytest.mark.parametrize(
    ("recipe", "piece", "texts"),
    [
        ("||||||||>|", b'{"system":"kind"}', [("system", "kind")]),
        (
            "{[{[{||m|||t|content|user|tool_result>user|tool_result",
            b'und","type":"tool_result"}]}]}',
            [("tool_result", "und")],
        ),
        (
            "{[{||m|||x|role|assi|>user|",
            b'stant"},{"role":"user","content":"x"}]}',
            [("user", "x")],
        ),
        (
            "{[{[{{[||m||5|||user|tool_use>|",
            b'{"id":"x"}]}}]}],"tools":[{"name":"Bash"}]}',
            [("user", "x"), ("tool", "Bash")],
        ),
        (
            "{[{[{{||m|5||x|type|user|image>user|image",
            b'l"},"text":"here"}]}]}',
            [("user", "here")],
        ),
        ("{|||||kn|||>|", b'ages":[{"role":"user","content":"x"}]', []),
    ],
)
def test_recipes_of_earlier_releases_are_read(recipe, piece, texts):
    assert read_piece(piece, recipe) == texts
