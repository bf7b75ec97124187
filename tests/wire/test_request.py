"""Requests and their blocks, as values."""

import orjson
import pytest
from hypothesis import given, strategies as st

from wire.block import Block, list_blocks
from wire.request import ATTRIBUTION, Message, Request, Thread

MARKER = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
FIELDS = st.sampled_from(
    [
        "type",
        "text",
        "content",
        "role",
        "id",
        "name",
        "input",
        "tool_use_id",
        "cache_control",
        "is_error",
    ]
)
KINDS = st.sampled_from(["text", "tool_use", "tool_result", "thinking", "web_search_tool_result"])
BLOCKS = JSON | st.dictionaries(FIELDS, JSON | KINDS | st.just(MARKER["cache_control"]))


def test_a_request_has_tools_system_messages_and_settings():
    request = Request.parse(
        orjson.dumps(
            {
                "model": "m",
                "tools": [{"name": "a"}, {"name": "b", "defer_loading": True}],
                "system": "Be brief.",
                "mcp_servers": [{"name": "s", "url": "u", "authorization_token": "t"}],
                "messages": [{"role": "user", "content": "Hi"}],
                "cache_control": {"type": "ephemeral"},
                "diagnostics": {"previous_message_id": "msg_1"},
            }
        )
    )
    assert request is not None
    assert [(tool.name, tool.is_deferred) for tool in request.tools] == [("a", False), ("b", True)]
    assert request.tools[1].load().value == {"name": "b"}
    assert [block.text() for block in request.system] == ["Be brief."]
    assert [server.value for server in request.mcp_servers] == [{"name": "s"}]
    assert request.messages == [Message("user", "Hi")]
    assert set(request.settings) == {"model", "mcp_servers", "cache_control", "diagnostics"}
    assert (request.ttl, request.diagnosed_message_id) == ("5m", "msg_1")


def test_a_call_and_its_result_have_one_id():
    call = Block({"type": "mcp_tool_use", "id": "c", "name": "Read", "input": {}} | MARKER)
    result = Block(
        {"type": "mcp_tool_result", "tool_use_id": "c", "is_error": True, "content": "no"}
    )
    assert call.is_call
    assert (call.call_id, call.name, call.ttl) == ("c", "Read", "1h")
    assert result.is_result
    assert (result.call_id, result.is_error, result.ttl) == ("c", True, None)
    assert [part.text() for part in result.list_parts()] == ["no"]


@pytest.mark.parametrize("kind", ["server_tool_use", "future_tool_use"])
def test_a_new_kind_of_call_is_known_by_its_end(kind):
    assert Block({"type": kind}).is_call
    assert not Block({"type": kind}).is_result


@pytest.mark.parametrize(
    ("content", "kinds"),
    [
        (None, []),
        ("words", ["text"]),
        ([{"type": "image"}, 1], ["image", ""]),
        ({"type": "text"}, ["text"]),  # an object in the place of a list is a block
    ],
)
def test_content_is_blocks_however_it_is_written(content, kinds):
    assert [block.kind for block in list_blocks(content)] == kinds


def test_a_message_that_is_no_object_is_a_block_itself():
    (message,) = Request({"messages": ["words"]}).messages
    assert message.role == ""
    assert [block.value for block in message.blocks] == ["words"]


@pytest.mark.parametrize(
    ("thread", "expected"),
    [
        ({"type": "create"}, Thread("create")),
        ({"type": "continue", "previous_message_id": "m"}, Thread("continue", "m")),
        ({"type": "continue", "previous_message_id": 1}, Thread("continue")),
        ({"type": "other"}, Thread()),
        ([], Thread()),
    ],
)
def test_a_request_says_which_message_of_a_thread_it_continues(thread, expected):
    assert Request({"thread": thread}).thread == expected


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ([{"type": "text", "text": f"{ATTRIBUTION} v=1"}, {"type": "text", "text": "x"}], True),
        (f"{ATTRIBUTION} v=1", False),
        ([{"type": "text", "text": "x"}], False),
        ([], False),
    ],
)
def test_the_attribution_is_the_first_block_of_several(system, expected):
    assert Request({"system": system}).has_attribution is expected


def test_messages_are_alike_without_markers_and_with_texts_as_blocks():
    result = {"type": "tool_result", "tool_use_id": "c"}
    text = {"type": "text", "text": "a"}
    plain = Message("user", [result | {"content": "a"}, text])
    marked = Message("user", [result | {"content": [text | MARKER]} | MARKER, text | MARKER])
    assert plain.normalize() == marked.normalize()
    assert Message("user", "a").normalize() == Message("user", [text | MARKER]).normalize()
    kept = {"type": "tool_use", "input": MARKER}  # an input may have any names
    assert Message("assistant", [kept]).normalize() == ("assistant", [kept])


@given(
    st.dictionaries(st.sampled_from(["tools", "system", "messages", "thread", "mcp_servers"]), JSON)
)
def test_a_request_takes_any_document(fields):
    request = Request(fields)
    for message in request.messages:
        message.normalize()
    for block in (*request.tools, *request.system, *request.mcp_servers):
        assert block.kind is not None
    assert request.thread in ((request.thread.step, request.thread.previous_id),)
    assert request.has_attribution in (True, False)


@given(st.lists(BLOCKS))
def test_a_block_takes_any_value(values):
    for block in Message("user", values).blocks:
        assert isinstance(block.call_id + block.name + block.server_name + block.text(), str)
        assert isinstance(block.list_parts(), list)
        assert block.ttl in (None, "5m", "1h")
    Message("user", values).normalize()


@given(st.binary())
def test_a_body_of_any_bytes_is_read(body):
    request = Request.parse(body)
    assert request is None or request.messages is not None
