"""Places of the parts of requests; what they are sorted into is tested with the X-ray."""

import orjson

from wire.json_places import JsonText
from wire.request_places import PlacedBlock, list_blocks

RESULT = {
    "type": "tool_result",
    "tool_use_id": "t1",
    "content": [{"type": "text", "text": "found"}, "odd"],
}
REQUEST = {
    "tools": [{"name": "Read", "defer_loading": True}],
    "model": "m",
    "messages": [
        {"content": "Hello", "role": "user"},
        "odd",
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "input": {"a": 1}}, {"type": "new"}],
        },
        {"role": "user", "content": [RESULT]},
    ],
    "system": [{"type": "text", "text": "Be brief."}],
}


def list_all(request: object) -> list[PlacedBlock]:
    return list(list_blocks(JsonText(orjson.dumps(request))))


def show(block: PlacedBlock) -> object:
    """Return what the model reads of a block, as it stands in the request."""
    return block.content and block.parent.text.read(block.content)


def test_tools_and_blocks_are_found_in_the_order_in_which_they_stand():
    blocks = list_all(REQUEST)
    places = [(each.parent.section, each.parent.message, each.number) for each in blocks]
    assert places == [
        ("tools", None, 0),
        ("messages", 0, None),
        ("messages", 2, 0),
        ("messages", 2, 1),
        ("messages", 3, 0),
        ("system", None, 0),
    ]
    assert [each.parent.role for each in blocks] == [
        "",
        "user",
        "assistant",
        "assistant",
        "user",
        "",
    ]
    assert [show(each) for each in blocks] == [
        None,
        "Hello",
        {"a": 1},
        None,
        RESULT["content"],
        "Be brief.",
    ]
    assert [each.is_call for each in blocks] == [False, False, True, False, False, False]
    assert [each.is_result for each in blocks] == [False, False, False, False, True, False]


def test_fields_are_read_one_by_one():
    tool, *_, result, _ = list_all(REQUEST)
    assert (tool.name, tool.kind, tool.call_id) == ("Read", "", "")
    assert tool.is_deferred
    assert not result.is_deferred
    assert result.call_id == "t1"


def test_the_parts_of_a_result_are_texts_and_blocks():
    *_, result, _ = list_all(REQUEST)
    assert [(part.kind, part.number, show(part)) for part in result.list_parts()] == [
        ("text", 0, "found"),
        ("", 1, None),
    ]
    (text,) = list_all({"messages": [{"content": [{"type": "x_tool_result", "content": "ok"}]}]})
    assert [(part.kind, part.number, show(part)) for part in text.list_parts()] == [
        ("text", None, "ok")
    ]


def test_what_is_no_list_has_no_blocks():
    for odd in ("text", {"type": "text", "text": "a"}, 5, None):
        assert list_all({"tools": odd, "messages": odd}) == []
    assert list_all([REQUEST]) == []
