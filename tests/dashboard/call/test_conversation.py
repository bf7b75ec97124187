"""Requests and answers as a page shows them: known kinds, odd shapes, and too much of everything."""

import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dashboard.call.blocks.reading import read_block
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Facts
from dashboard.call.conversation import (
    MAX_CHARS,
    Front,
    Message,
    parse_request,
    read_front,
    read_messages,
)
from dashboard.call.excerpts import Allowance
from dashboard.call.response import MessageResponse, parse_response
from tests.metering.test_chat_completions import END, LAST, PARTS
from tests.recorded import CASES, RECORDED, needs_recorded
from tests.store.traffic import agent_requests
from wire import json_reading
from wire.request import Request


class Conversation:
    """A request as a page of its own shows it."""

    def __init__(self, request: Request, max_chars: int) -> None:
        front = Room(allowance=Allowance(max_chars // 4))
        room = Room(allowance=Allowance(max_chars))
        self.front: Front = read_front(request, front)
        self.messages: tuple[Message, ...] = read_messages(request.messages, room)


def conversation_of(*, max_chars: int = MAX_CHARS, **fields: object) -> Conversation:
    document = parse_request(json.dumps({"model": "m", "messages": []} | fields).encode())
    assert document is not None
    return Conversation(document, max_chars)


def request_of(**fields: object) -> None:
    """Read a request of any shape."""
    document = parse_request(json.dumps({"model": "m", "messages": []} | fields).encode())
    if document is not None:
        Conversation(document, MAX_CHARS)


def answer_of(body: bytes) -> MessageResponse:
    found = parse_response(body)
    assert found is not None
    return found


def facts_of(block):
    return {k: v for piece in block.pieces if isinstance(piece, Facts) for k, v in piece.items}


def block_of(**item):
    return read_block(item, Room(allowance=Allowance(10_000)))


def stream_of(*documents):
    return "".join(
        f"event: {document['type']}\ndata: {json.dumps(document)}\n\n" for document in documents
    ).encode()


START = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "claude-x", "usage": {"input_tokens": 5}},
}
STOP = {"type": "message_stop"}


def block_start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind} | fields}


# -- requests ----------------------------------------------------------------------------------------


def test_a_request_is_read_as_a_conversation():
    found = conversation_of(
        max_tokens=10,
        thinking={"type": "enabled"},
        system="Be brief.",
        tools=[{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}],
        messages=[
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        ],
    )
    assert [name for name, _ in found.front.settings] == ["model", "max_tokens", "thinking"]
    assert [value.text for _, value in found.front.settings][:2] == ["m", "10"]
    assert [block.text for block in found.front.system] == ["Be brief."]
    assert [tool.name for tool in found.front.tools] == ["read"]
    assert found.front.tools[0].description is not None
    assert found.front.tools[0].description.text == "Reads."
    assert json.loads(found.front.tools[0].schema.text) == {"type": "object"}
    assert [(each.number, each.role) for each in found.messages] == [(1, "user"), (2, "assistant")]
    assert [each.blocks[0].text for each in found.messages] == ["Hello", "Hi"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"null", b'{"messages": {}}', b"<html>", b'{"messages": [', b"\xff\xfe"],
)
def test_what_is_no_request_for_messages_is_left_to_the_raw_view(body):
    assert parse_request(body) is None


# -- shapes that nobody sends -------------------------------------------------------------------------

KINDS = ["text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "fallback"]
BLOCK_FIELDS = [
    "text", "thinking", "data", "input", "content", "source", "name", "id", "cache_control"
]  # fmt: skip
REQUEST_FIELDS = ["system", "tools", "messages", "thinking"]

ODD: list[Any] = [
    None, 1, 1.5, True, "text", [], {}, [[]], [None], {"type": 5}, {"type": "text"}, "\ud800"
]  # fmt: skip
ODDER = st.recursive(
    st.sampled_from(ODD),
    lambda values: (
        st.lists(values, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", *BLOCK_FIELDS]), values, max_size=3)
        | st.fixed_dictionaries({"type": st.sampled_from(KINDS), "content": values})
    ),
    max_leaves=10,
)


@contextmanager
def naming(shape: object) -> Iterator[None]:
    """Name the shape in the report of a failure."""
    try:
        yield
    except Exception as error:
        error.add_note(f"while reading {shape!r}")
        raise


def test_no_shape_of_a_request_is_too_odd():
    for value in ODD:
        shapes = [{key: odd} for key in REQUEST_FIELDS for odd in (value, [value])]
        shapes.append({"messages": [{"role": value, "content": value}]})
        for shape in shapes:
            with naming(shape):
                request_of(**shape)


def test_no_shape_of_a_block_is_too_odd():
    for kind, key, value in product(KINDS, BLOCK_FIELDS, ODD):
        shape = {"type": kind, key: value}
        with naming(shape):
            read_block(shape, Room(allowance=Allowance(1000)))


@given(st.dictionaries(st.sampled_from(REQUEST_FIELDS), ODDER))
def test_no_combination_of_shapes_is_too_odd(fields):
    request_of(**fields)


def test_damaged_bodies_never_fail():
    rng = random.Random(5)  # noqa: S311 - the same damage on every run
    *_, request = agent_requests(3)
    stream = stream_of(START, block_start(0, type="text"), delta(0, "text_delta", text="x"), STOP)
    for original in (request[-3000:], request[:3000], stream):
        for _ in range(300):
            damaged = bytearray(original)
            for _ in range(rng.randrange(1, 8)):
                damaged[rng.randrange(len(damaged))] = rng.choice(b'{}[]",:\\\n0\x00\xff')
            document = parse_request(bytes(damaged))
            if document is not None:
                Conversation(document, MAX_CHARS)
            parse_response(bytes(damaged))


# -- blocks ------------------------------------------------------------------------------------------


def test_cache_marks_are_shown():
    assert block_of(type="text", text="x", cache_control={"type": "ephemeral"}).notes == (
        "cache breakpoint",
    )
    marked = block_of(type="text", text="x", cache_control={"type": "ephemeral", "ttl": "1h"})
    assert marked.notes == ("cache breakpoint, 1h",)


def test_a_tool_call_and_its_result_are_shown():
    call = block_of(type="tool_use", id="toolu_1", name="read", input={"path": "a"})
    assert (call.label, call.name, call.id) == ("read", "", "toolu_1")
    assert facts_of(call) == {"path": "a"}
    result = block_of(type="tool_result", tool_use_id="toolu_1", is_error=True, content="no file")
    assert (result.id, result.text, result.is_error) == ("toolu_1", "no file", True)
    nested = block_of(
        type="tool_result", content=[{"type": "text", "text": "one"}, {"type": "image"}]
    )
    assert [part.kind for part in nested.parts] == ["text", "media"]


def test_a_tool_of_a_server_is_named_as_both():
    call = block_of(type="tool_use", name="mcp__tracker__get_issue", input={})
    assert (call.label, call.name, call.notes) == ("tracker", "get_issue", ())
    call = block_of(type="mcp_tool_use", name="get_issue", server_name="tracker", input={})
    assert (call.label, call.name, call.notes) == ("tracker", "get_issue", ("run by upstream",))
    call = block_of(type="hologram_tool_use", name="", input={})
    assert (call.label, call.notes) == ("Tool", ("hologram_tool_use",))


def test_a_result_is_beside_its_call_and_named_after_it():
    found = conversation_of(
        messages=[
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "t1", "name": "read"},
                    {"type": "tool_use", "id": "t2", "name": "write"},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t2", "content": "two"},
                    {"type": "tool_result", "tool_use_id": "t9", "content": "nine"},
                    {"type": "text", "text": "go on"},
                    {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
                ],
            },
        ]
    )
    assistant, user = found.messages
    joined = [(block.label, block.result and block.result.text) for block in assistant.blocks]
    assert joined == [("read", "one"), ("write", "two")]
    assert [block.result and block.result.name for block in assistant.blocks] == ["read", "write"]
    assert [block.text for block in user.blocks] == ["nine", "go on"], "its call is not there"
    assert user.moved == 2


def test_the_second_of_two_results_with_one_id_stays_where_it_is():
    found = conversation_of(
        messages=[
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read"}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "a"}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "b"}],
            },
        ]
    )
    assert [[block.text for block in each.blocks] for each in found.messages] == [[""], [], ["b"]]


def test_a_tool_of_upstream_that_failed_is_marked():
    content = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    found = block_of(type="web_search_tool_result", tool_use_id="x", content=content)
    assert found.is_error
    assert found.label == "Result (web_search_tool_result)"


def test_thinking_is_shown_and_what_is_encrypted_is_said():
    found = block_of(type="thinking", thinking="Hm.", signature="abc")
    assert (found.label, found.text, found.notes) == ("Thinking", "Hm.", ("signed",))
    found = block_of(type="redacted_thinking", data="x" * 2000)
    assert (found.label, found.notes) == ("Redacted thinking", ("encrypted, 2.0 KB",))


def test_a_kind_from_the_future_is_shown_as_json():
    found = block_of(type="hologram", depth=3, light={"red": [1, 2]})
    assert found.label == "hologram"
    assert json.loads(found.text) == {"depth": 3, "light": {"red": [1, 2]}}


def test_blocks_in_blocks_end_somewhere():
    item: object = "end"
    for _ in range(200):
        item = [{"type": "tool_result", "content": item}]
    assert conversation_of(messages=[{"role": "user", "content": item}]).messages


def test_the_last_messages_are_those_that_are_shown():
    messages = [{"role": "user", "content": f"{n} " + "x" * 1000} for n in range(100)]
    found = conversation_of(messages=messages, max_chars=20_000)
    assert 10 < len(found.messages) < 20
    assert [each.number for each in found.messages] == list(range(101 - len(found.messages), 101))


def test_a_long_system_prompt_and_tools_leave_room_for_messages():
    body: dict[str, Any] = {
        "system": "s" * 10_000,
        "tools": [{"name": f"t{n}"} for n in range(1000)],
        "messages": [{"role": "user", "content": "m" * 6_000}],
    }
    found = conversation_of(**body, max_chars=10_000)
    assert found.messages[0].blocks[0].left_out == 0
    assert found.front.system[0].left_out > 7_000
    assert (found.front.tool_count, len(found.front.tools)) == (1000, 0)


def test_a_million_empty_blocks_are_not_shown():
    blocks = [{"type": "text", "text": ""}] * 50_000
    found = conversation_of(messages=[{"role": "user", "content": blocks}])
    shown = found.messages[0].blocks
    assert len(shown) < 10_000
    assert shown[-1].label == f"{50_000 - len(shown) + 1} more not shown"


def test_too_many_values_are_not_even_parsed():
    body = b'{"messages": [' + b"0," * json_reading.MAX_VALUES + b"0]}"
    assert parse_request(body) is None


# -- answers -----------------------------------------------------------------------------------------


def test_a_json_answer_is_shown():
    document = {
        "id": "msg_1",
        "model": "claude-x",
        "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Hi"}],
        "usage": {"output_tokens": 3},
    }
    found = answer_of(json.dumps(document).encode())
    assert found.facts == (
        ("Message", "msg_1"),
        ("Model", "claude-x"),
        ("Stop reason", "end_turn"),
    )
    assert [block.text for block in found.blocks] == ["Hi"]
    assert json.loads(found.usage.text) == {"output_tokens": 3}
    assert not found.is_cut


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_chat_completion_is_shown_as_a_message_is(is_cut):
    found = answer_of(b"".join(PARTS[:-1] if is_cut else (*PARTS, LAST, END)))
    assert [block.text for block in found.blocks] == ["Hey"]
    assert found.is_cut is is_cut
    assert dict(found.facts).get("Stop reason") == (None if is_cut else "stop")


def test_an_error_is_shown():
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
    for sent in (body, b"event: error\ndata: " + body + b"\n\n"):
        found = answer_of(sent)
        assert found.error == ("overloaded_error", ("Overloaded", 0))
        assert not found.is_cut


def test_a_stream_is_put_together():
    found = answer_of(
        stream_of(
            START,
            block_start(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="Hm"),
            delta(0, "thinking_delta", thinking="m."),
            delta(0, "signature_delta", signature="sig"),
            block_start(1, type="text", text=""),
            delta(1, "text_delta", text="Hel"),
            delta(1, "text_delta", text="lo"),
            delta(1, "citations_delta", citation={"cited_text": "x"}),
            block_start(2, type="tool_use", id="toolu_1", name="read", input={}),
            delta(2, "input_json_delta", partial_json=""),
            delta(2, "input_json_delta", partial_json='{"path": '),
            delta(2, "input_json_delta", partial_json='"a"}'),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 9},
            },
            STOP,
        )
    )
    thinking, text, call = found.blocks
    assert (thinking.text, thinking.notes) == ("Hmm.", ("signed",))
    assert (text.text, text.notes) == ("Hello", ("1 citation",))
    assert (call.label, facts_of(call)) == ("read", {"path": "a"})
    assert ("Stop reason", "tool_use") in found.facts
    assert json.loads(found.usage.text) == {"input_tokens": 5, "output_tokens": 9}
    assert not found.is_cut


def test_a_cut_stream_shows_what_came():
    whole = stream_of(
        START,
        block_start(0, type="tool_use", id="toolu_1", name="read", input={}),
        delta(0, "input_json_delta", partial_json='{"path": "a'),
    )
    found = answer_of(whole)
    assert found.is_cut
    assert found.blocks[0].text == '{"path": "a'
    for end in range(len(whole)):
        parse_response(whole[:end])


def test_a_stream_too_long_to_be_read_is_not_called_cut():
    stream = stream_of(START, block_start(0, type="text"), delta(0, "text_delta", text="a"), STOP)
    found = parse_response(stream, max_events=3)
    assert found is not None
    assert (found.is_beginning, found.is_cut, found.blocks[0].text) == (True, False, "a")
    whole = parse_response(stream, max_events=4)
    assert whole is not None
    assert (whole.is_beginning, whole.is_cut) == (False, False)


@pytest.mark.slow
def test_the_time_that_citations_take_grows_with_their_number_alone():
    stream = stream_of(START, block_start(0, type="text", text="a", citations=None))
    citation = b'data: {"type":"content_block_delta","index":0,"delta":{"citation":{}}}\n\n'
    begun_s = time.process_time()
    found = answer_of(stream + citation * 140_000)
    # A tenth of that, but minutes where each of them copies those before it.
    assert time.process_time() - begun_s < 5
    assert found.blocks[0].notes == ("140000 citations",)


@pytest.mark.parametrize("index", [-1, 10_000, 2**61 - 1, "0"])
def test_a_block_at_an_odd_place_is_left_out(index):
    found = answer_of(
        stream_of(
            START,
            block_start(0, type="text", text="a"),
            block_start(index, type="text", text="b"),
            delta(index, "text_delta", text="c"),
            STOP,
        )
    )
    assert [block.text for block in found.blocks] == ["a"]


def test_a_stream_that_breaks_with_an_error_shows_both():
    error = {"type": "error", "error": {"type": "api_error", "message": "Sorry"}}
    found = answer_of(
        stream_of(START, block_start(0, type="text"), delta(0, "text_delta", text="Hel"), error)
    )
    assert found.blocks[0].text == "Hel"
    assert found.error == ("api_error", ("Sorry", 0))


def test_deltas_without_their_start_are_shown_too():
    found = answer_of(stream_of(delta(7, "text_delta", text="lost"), STOP))
    assert (found.blocks[0].kind, found.blocks[0].text) == ("text", "lost")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>Bad gateway</html>", b'{"ok": true}', b"[1]", b": ping\n\n", b"data: 1\n\n"],
)
def test_what_is_no_answer_is_left_to_the_raw_view(body):
    assert parse_response(body) is None


def test_a_long_stream_is_read_in_reasonable_time():
    deltas = [delta(0, "text_delta", text="word ")] * 60_000
    found = answer_of(stream_of(START, block_start(0, type="text"), *deltas, STOP))
    assert found.content == [{"type": "text", "text": "word " * 60_000}]
    assert found.blocks[0].left_out == 5 * 60_000 - 50_000


# -- what real clients and the real API said ----------------------------------------------------------


@needs_recorded
def test_recorded_exchanges_are_read(subtests):
    for name, case in CASES.items():
        with subtests.test(name):
            check_recorded(name, case)


def check_recorded(name, case):
    body = (RECORDED / case["response_file"]).read_bytes()
    if "count_tokens" in name and case["status"] == 200:
        assert parse_response(body) is None
    elif case["status"] >= 400:
        assert answer_of(body).error is not None
    else:
        found = answer_of(body)
        assert found.blocks
        assert not found.is_cut
        assert not any(block.left_out for block in found.blocks)
        assert dict(found.facts)["Model"]
    request = RECORDED / f"{name}.request.json"
    if request.exists():
        assert conversation_of(**json.loads(request.read_bytes())).messages
