"""Texts that take minutes or hours to colour or to compare, and little to record."""

import json
from collections.abc import Mapping
from typing import Any


def _make_fence() -> list[dict[str, Any]]:
    """Tabs, at each of which an expression of the lexer looks through all that follow."""
    tabs = "\t" * 19_900
    return [{"role": "user", "content": f"```easytrieve\n{tabs}\n```"}]


def _make_result() -> list[dict[str, Any]]:
    """Lines that may each be the beginning of a method with many modifiers."""
    call = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "x.cs"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "a\n" * 4_500}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def _make_edits() -> list[dict[str, Any]]:
    """Edits whose lines are nearly all the same, in all pairs. As they are they take a tenth of a second:
    a longer page would be made in the slow lane, which has hardly any of a busy machine."""
    old, new = "a\n" * 199, "a\nb\n" * 99
    edits = [{"old_string": old, "new_string": new} for _ in range(80)]
    given = {"file_path": "x", "edits": edits}
    call = {"type": "tool_use", "id": "t", "name": "MultiEdit", "input": given}
    return [{"role": "assistant", "content": [call]}]


SLOW_TEXTS: Mapping[str, bytes] = {
    name: json.dumps({"model": "claude-x", "max_tokens": 1, "messages": messages}).encode()
    for name, messages in (
        ("a fence of tabs", _make_fence()),
        ("the result of a tool", _make_result()),
        ("many edits", _make_edits()),
    )
}
