from typing import Any

import pytest
from hypothesis import given, strategies as st

from metering.tool_results import FAILED, ToolResult
from metering.tool_uses import (
    SAID_CHARS,
    ToolUse,
    keep_plain_uses,
    read_said_text,
    read_tool_uses,
)
from tests.metering.responses import event
from wire.block import list_blocks
from wire.content import read_content


def use(name: object, given: object = None, **fields: object) -> ToolUse:
    """Return what is read of a call of a tool."""
    block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given, **fields}
    (found,) = read_tool_uses(list_blocks([block]))
    return found


def change(**given: object) -> tuple[int | None, int | None]:
    """Return the lines that a tool with this input adds and removes."""
    found = use("any", given)
    return found.plus, found.minus


@pytest.mark.parametrize(
    ("name", "given", "target"),
    [
        ("Read", {"file_path": "/a/b.py", "offset": 3}, "/a/b.py"),
        ("NotebookRead", {"notebook_path": "/a/b.ipynb"}, "/a/b.ipynb"),
        ("LS", {"path": "/a"}, "/a"),
        ("Grep", {"path": "/a", "pattern": r"is_night\("}, r"is_night\("),
        ("Glob", {"pattern": "**/*.py"}, "**/*.py"),
        ("Bash", {"command": "pytest -q", "description": "Run the tests"}, "pytest -q"),
        ("Bash", {"command": "\n cat <<EOF  \nsecond line\nEOF"}, "cat <<EOF"),
        ("WebFetch", {"url": "https://example.org/", "prompt": "Sum up"}, "https://example.org/"),
        ("WebSearch", {"query": "taxi fares"}, "taxi fares"),
        ("Task", {"subagent_type": "Explore", "prompt": "Find it"}, "Explore"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/a.py"}, "/a.py"),
        ("TodoWrite", {"todos": []}, None),
        ("Read", {"file_path": ""}, None),
        ("Read", {"file_path": ["/a", "/b"]}, None),
        ("Read", {"file_path": 7, "path": "/a"}, "/a"),
        ("Read", None, None),
        ("Read", '{"file_path": "/a', None),
        ("Read", ["/a"], None),
    ],
)
def test_target_is_what_a_tool_is_used_upon(name: str, given: object, target: str | None) -> None:
    assert use(name, given) == ToolUse(tool=name, target=target)


@pytest.mark.parametrize(
    ("name", "server", "tool"),
    [
        ("mcp__github__search_issues", "github", "search_issues"),
        ("mcp__github__search__all", "github", "search__all"),
        ("mcp__plugin_a_b__run", "plugin_a_b", "run"),
        ("mcp__github", None, "mcp__github"),
        ("mcp____run", None, "mcp____run"),
        ("mcp__github__", None, "mcp__github__"),
        ("my__tool", None, "my__tool"),
        ("", None, None),
        (None, None, None),
    ],
)
def test_name_of_a_client_has_the_server_of_a_tool(
    name: object, server: str | None, tool: str | None
) -> None:
    assert use(name) == ToolUse(tool=tool, server=server)


def test_server_that_upstream_calls_stands_beside_the_name() -> None:
    found = use("search", {"query": "fares"}, type="mcp_tool_use", server_name="maps")
    assert found == ToolUse(tool="search", server="maps", target="fares")


@pytest.mark.parametrize("kind", ["tool_use", "server_tool_use", "mcp_tool_use", "new_tool_use"])
def test_calls_of_all_kinds_are_uses_in_their_order(kind: str) -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": "I look."},
        {"type": kind, "name": "first"},
        {"type": "web_search_tool_result", "tool_use_id": "1", "content": []},
        {"type": "tool_use", "name": "second"},
        {"name": "lost"},
    ]
    assert [each.tool for each in read_tool_uses(list_blocks(blocks))] == ["first", "second"]


@pytest.mark.parametrize(
    ("given", "plus", "minus"),
    [
        ({"old_string": "a\nb\nc", "new_string": "a\nB\nBB\nc"}, 2, 1),
        ({"old_string": "a", "new_string": "a\na"}, 1, 0),
        ({"old_string": "a\na", "new_string": "a"}, 0, 1),
        ({"old_string": "a\n", "new_string": ""}, 0, 1),
        ({"old_string": "a\nb", "new_string": "a\nb\n"}, 0, 0),
        ({"old_string": "", "new_string": "a\n\nb\n"}, 3, 0),
        ({"old_string": "a", "new_string": None}, 0, 1),
        ({"command": "str_replace", "path": "/a", "old_str": "a", "new_str": "b"}, 1, 1),
        ({"command": "str_replace", "path": "/a", "old_str": "a\nb"}, 0, 2),
        ({"command": "create", "path": "/a", "file_text": "a\nb\n"}, 2, None),
        ({"command": "insert", "path": "/a", "insert_line": 0, "insert_text": "a\nb"}, 2, 0),
        ({"command": "insert", "path": "/a", "insert_line": 0, "new_str": "a"}, 1, 0),
        ({"command": "view", "path": "/a", "view_range": [1, 2]}, None, None),
        ({"file_path": "/a", "content": "a\nb"}, 2, None),
        ({"file_path": "/a", "content": ""}, 0, None),
        ({"path": "/a", "content": {"a": 1}}, None, None),
        ({"channel": "taxi", "content": "a message\nof two lines"}, None, None),
        ({"notebook_path": "/a", "new_source": "a\nb"}, 2, None),
        ({"notebook_path": "/a", "new_source": "a\nb", "edit_mode": "insert"}, 2, 0),
        ({"notebook_path": "/a", "new_source": "", "edit_mode": "delete"}, 0, None),
        ({"path": "/a", "edits": [{"oldText": "a", "newText": "b\nc"}]}, 2, 1),
        ({"edits": []}, None, None),
        ({"edits": "none"}, None, None),
        ({"command": "sed -i s/a/b/ a.py"}, None, None),
    ],
)
def test_lines_are_those_that_an_input_says(
    given: dict[str, object], plus: int | None, minus: int | None
) -> None:
    assert change(**given) == (plus, minus)


def test_lines_of_several_edits_are_summed() -> None:
    edits = [
        {"old_string": "a", "new_string": "b\nc"},
        {"old_string": "d\ne", "new_string": "d"},
        "no edit",
    ]
    assert change(file_path="/a", edits=edits) == (2, 2)


def test_results_of_tools_of_upstream_are_in_the_response() -> None:
    blocks: list[dict[str, Any]] = [
        {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {"query": "fares"}},
        {"type": "web_search_tool_result", "tool_use_id": "1", "content": "x" * 30},
        {"type": "mcp_tool_use", "id": "2", "name": "find", "server_name": "maps"},
        {"type": "mcp_tool_result", "tool_use_id": "2", "is_error": True, "content": "closed"},
        {"type": "server_tool_use", "id": "3", "name": "web_fetch"},
    ]
    assert [each.result for each in read_tool_uses(list_blocks(blocks))] == [
        ToolResult(10),
        ToolResult(2, "closed"),
        None,
    ]


def test_deltas_of_a_stream_are_read_as_a_document_is() -> None:
    written = '{"file_path": "/a.py", "old_string": "a", "new_string": "b\\nc"}'
    start = {"type": "tool_use", "id": "toolu_1", "name": "Edit", "input": {}}
    body = event("content_block_start", index=0, content_block=start) + b"".join(
        event(
            "content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": part}
        )
        for part in (written[:20], written[20:])
    )
    expected = ToolUse(tool="Edit", target="/a.py", plus=2, minus=1)
    assert read_tool_uses(read_content(body).blocks) == [expected]
    cut = body[: body.rindex(b"event:")]
    assert read_tool_uses(read_content(cut).blocks) == [ToolUse(tool="Edit")]


def test_texts_are_short_and_such_as_a_database_can_keep() -> None:
    found = use("T" * 500, {"file_path": "/a\0\ud800" + "b" * 500}, server_name="s" * 500)
    for text in (found.tool, found.server, found.target):
        assert text is not None
        assert len(text) <= 200
        assert "\0" not in text
        text.encode()


def test_names_and_numbers_alone_are_kept_without_texts() -> None:
    failed = ToolResult(7, "no such plan")
    uses = [
        ToolUse(tool="Edit", server="files", target="/secret/plan.py", plus=2, minus=1),
        ToolUse(tool="tell me a story", server="a b", target="x", result=failed),
    ]
    assert keep_plain_uses(uses) == [
        ToolUse(tool="Edit", server="files", plus=2, minus=1),
        ToolUse(tool=None, result=ToolResult(7, FAILED)),
    ]


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([{"type": "text", "text": " It is\n\n 12:00.\t"}], "It is 12:00."),
        ([{"type": "text", "text": " \n"}, {"type": "text", "text": "Yes."}], "Yes."),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Yes."}], "Yes."),
        ([{"type": "tool_use", "name": "Bash", "input": {}}], None),
        ([{"type": "text", "text": 7}], None),
        ([], None),
        ([{"type": "text", "text": "é" * 161}], "é" * 160),
        ([{"type": "text", "text": "a " * 161}], ("a " * 80).rstrip()),
        ([{"type": "text", "text": "a" + " " * 9_000 + "b"}], "a b"),
    ],
)
def test_first_words_of_a_response_are_one_line(blocks: list[object], said: str | None) -> None:
    assert read_said_text(list_blocks(blocks)) == said


_NAMES = st.sampled_from(
    [
        "type",
        "name",
        "input",
        "server_name",
        "text",
        "file_path",
        "command",
        "content",
        "edits",
        "old_string",
        "new_string",
        "old_str",
        "new_str",
        "insert_line",
        "new_source",
        "edit_mode",
    ]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(_NAMES, each, max_size=5),
    max_leaves=20,
)


@given(st.lists(_JSON, max_size=3), _JSON)
def test_any_block_is_read(blocks: list[object], given: object) -> None:
    call = {"type": "tool_use", "name": given, "input": given, "server_name": given}
    found = list_blocks([*blocks, call, {"type": "text", "text": given}])
    for each in read_tool_uses(found):
        assert each.plus is None or each.plus >= 0
        assert each.minus is None or each.minus >= 0
    assert len(read_said_text(found) or "") <= SAID_CHARS


@pytest.mark.parametrize("between", [" ", "\n\n", " " * 50, "\t" * 1_000])
def test_first_words_are_as_long_whatever_is_between_them(between: str) -> None:
    text = between.join(["word"] * 1_000)
    said = read_said_text(list_blocks([{"type": "text", "text": text}]))
    assert said == " ".join(["word"] * 1_000)[:SAID_CHARS].rstrip()
