import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conversations.token_rules import read_token_rules
from metering.tool_results import (
    BYTES_PER_TOKEN,
    DOCUMENT_CHARS_PER_TOKEN,
    FAILED,
    IMAGE_TOKENS,
    MAX_PROBLEM_CHARS,
    NO_RESULTS,
    ToolResult,
    UseResult,
    describe_error,
    find_last_results,
    read_result,
    without_words,
)
from wire.block import Block
from wire.request import Request


def result(content: object = None, **fields: object) -> ToolResult:
    """Return what is read of the result of a client's tool."""
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": content, **fields}
    return read_result(Block(block))


def test_estimate_is_that_of_what_fills_a_prompt() -> None:
    rules = read_token_rules()
    assert rules.bytes_per_token["code"] == BYTES_PER_TOKEN
    assert rules.bytes_per_token["page_unknown"] == DOCUMENT_CHARS_PER_TOKEN
    assert rules.image_unknown == IMAGE_TOKENS


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("x" * 300, 100),
        ("é" * 300, 200),
        ([{"type": "text", "text": "x" * 300}, {"type": "text", "text": "y" * 30}], 110),
        ([{"type": "image", "source": {"data": "A" * 90_000}}], IMAGE_TOKENS),
        ([{"type": "document", "source": {"type": "base64", "data": "A" * 4_000}}], 100),
        ([{"type": "document", "source": {"type": "text", "data": "x" * 300}}], 100),
        ("", 0),
        (None, 0),
        ([], 0),
    ],
)
def test_tokens_of_a_result_are_estimated_by_its_size(content: object, tokens: int) -> None:
    assert result(content) == ToolResult(tokens)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Exit code 1\n2 failed, 7 passed", "exit 1"),
        ("Error: Command failed with exit code 127: frob", "exit 127"),
        ("Process exited with code 2\nOutput:", "exit 2"),
        ("make: *** [all] Error 2\nexit status 2", "exit 2"),
        ("<tool_use_error>String to replace not found in file.\nString: a</tool_use_error>", "string not found"),
        ("No match found for replacement. Please check your text.", "string not found"),
        ("No replacement was performed, old_str `a` did not appear verbatim in /a.", "string not found"),
        ("<tool_use_error>File does not exist.</tool_use_error>", "not found"),
        ("ENOENT: no such file or directory, open '/a'", "not found"),
        ("bash: frob: command not found", "not found"),
        ("  \n Permission   denied \nmore", "Permission denied"),
        ("Error: Timed out after 2m", "Timed out after 2m"),
        ("x" * 200, "x" * 79 + "…"),
        (".F.   [100%]\n=== FAILURES ===\nE assert not True\n1 failed, 2 passed in 0.31s", "1 failed"),
        ("--- 12 ---\nIt was refused", "It was refused"),
        ("==== 12 ====", "==== 12 ===="),
        ("", FAILED),
        ("<tool_use_error></tool_use_error>", FAILED),
    ],
)  # fmt: skip
def test_problem_is_told_in_few_words(text: str, problem: str) -> None:
    assert result(text, is_error=True).problem == problem
    assert result([{"type": "text", "text": text}], is_error=True).problem == problem
    assert result(text).problem is None


def test_error_without_words_is_one_all_the_same() -> None:
    assert result(is_error=True).problem == FAILED
    assert result([{"type": "image"}], is_error=True).problem == FAILED
    assert result("fine", is_error="true").problem is None


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        (
            "web_search_tool_result",
            {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
            "max_uses_exceeded",
        ),
        (
            "bash_code_execution_tool_result",
            {"type": "bash_code_execution_result", "return_code": 2, "stdout": ""},
            "exit 2",
        ),
        (
            "bash_code_execution_tool_result",
            {"type": "bash_code_execution_result", "return_code": 0, "stdout": ""},
            None,
        ),
        ("web_search_tool_result", [{"type": "web_search_result", "title": "Fares"}], None),
        ("new_tool_result", {"type": "new_tool_result_error"}, FAILED),
    ],
)
def test_tools_of_upstream_have_errors_of_their_own(
    kind: str, content: object, problem: str | None
) -> None:
    block = {"type": kind, "tool_use_id": "srvtoolu_1", "content": content}
    assert read_result(Block(block)).problem == problem


def messages(*contents: Any) -> list[dict[str, Any]]:
    """Return messages of these contents, of the user and the model in turns."""
    return [
        {"role": ("user", "assistant")[place % 2], "content": content}
        for place, content in enumerate(contents)
    ]


def find(*contents: Any) -> Any:
    return find_last_results(Request({"messages": messages(*contents)}).messages)


def use(name: str, id_: str, kind: str = "tool_use") -> dict[str, Any]:
    return {"type": kind, "id": id_, "name": name, "input": {}}


def answer(id_: str, content: object = "xyz", **fields: object) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id_, "content": content, **fields}


def test_results_have_the_places_of_their_uses_in_the_last_answer() -> None:
    uses = [use("Read", "1"), use("search", "2", "server_tool_use"), use("mcp__maps__find", "3")]
    found = find("Hi", [use("Bash", "0")], [answer("0")], uses, [answer("3"), answer("1")])
    assert found == (3, [UseResult(2, "find", ToolResult(1)), UseResult(0, "Read", ToolResult(1))])


def test_results_of_other_uses_are_left_out() -> None:
    assert (
        find("Hi", [use("Read", "1")], [answer("7"), {"type": "text", "text": "x"}]) == NO_RESULTS
    )
    assert find("Hi", "Hello", "Bye") == NO_RESULTS
    assert find() == NO_RESULTS


def test_results_without_the_answer_are_known_by_their_order() -> None:
    found = find([answer("1"), answer("2", "Exit code 1", is_error=True)])
    assert found == (
        None,
        [UseResult(0, None, ToolResult(1)), UseResult(1, None, ToolResult(4, "exit 1"))],
    )


def test_words_about_a_problem_can_be_left_out() -> None:
    assert without_words(ToolResult(7, "no such plan")) == ToolResult(7, FAILED)
    assert without_words(ToolResult(7)) == ToolResult(7)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "type",
                    "text",
                    "content",
                    "source",
                    "data",
                    "is_error",
                    "return_code",
                    "error_code",
                )
            ),
            each
            | st.sampled_from(
                ("text", "image", "document", "tool_result", "x_tool_result", "_error")
            ),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_JSON, max_size=4), st.text(max_size=300))
def test_any_message_is_read(contents: list[object], text: str) -> None:
    for content in contents:
        found = result(content, is_error=True)
        assert found.tokens >= 0
        json.dumps(found).encode()
        assert len(found.problem or "") <= MAX_PROBLEM_CHARS
    for content in contents:
        find_last_results(Request({"messages": [content, *messages(*contents)]}).messages)
    assert 0 < len(describe_error(text)) <= MAX_PROBLEM_CHARS


def test_text_of_an_error_takes_no_time_that_grows_with_it() -> None:
    assert describe_error("string " * 400_000)
