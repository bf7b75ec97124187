"""The uses of tools in a response, with their targets and the lines they change, and its first words.

The purpose of a tool is not declared, so it is recognised by the names in its input, which the
tools of clients, of upstream and of MCP servers share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from metering.request_facts import keep_plain_name
from metering.tool_names import read_name
from metering.tool_results import ToolResult, read_result, without_words
from wire.block import TEXT, Block
from wire.json_reading import as_objects, as_text, clean_text

SAID_CHARS = 160
_ENOUGH_CHARS = SAID_CHARS + 40  # of nearly any text, to make a line of it
_FILES = ("file_path", "notebook_path", "path")
# What of an input names best upon what a tool is used. A search may have a path, but is told by its pattern.
_TARGETS = (
    "file_path",
    "notebook_path",
    "pattern",
    "path",
    "url",
    "command",
    "query",
    "subagent_type",
)
# A text that becomes another, as the tools of Claude Code, of upstream, and of MCP's servers call them.
_REPLACEMENTS = (("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"))
_WHOLE_FILES = ("content", "file_text")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One use of a tool. ``tool`` is None if its name is unknown, ``server`` without an MCP server.

    ``plus`` and ``minus`` are the numbers of lines that it adds to files and removes from them: None
    for tools that change no file, and if the input does not say how many. ``result`` is that of a tool
    that upstream runs, which comes with the response; None for the tools of clients."""

    tool: str | None
    server: str | None = None
    target: str | None = None
    result: ToolResult | None = None
    plus: int | None = None
    minus: int | None = None


def read_tool_uses(blocks: Iterable[Block]) -> list[ToolUse]:
    """Return the uses of tools in a response, in order. Accepts any blocks, and never raises."""
    uses: list[Block] = []
    results: dict[str, ToolResult] = {}
    for block in blocks:
        if block.is_call:
            uses.append(block)
        elif block.is_result:
            results[block.call_id] = read_result(block)
    return [_read_use(use, results.get(use.call_id)) for use in uses]


def keep_plain_uses(uses: Iterable[ToolUse]) -> list[ToolUse]:
    """Return the uses without possible text: only numbers, and names that look like names."""
    return [
        replace(
            use,
            tool=keep_plain_name(use.tool),
            server=keep_plain_name(use.server),
            target=None,
            result=None if use.result is None else without_words(use.result),
        )
        for use in uses
    ]


def read_said_text(blocks: Iterable[Block]) -> str | None:
    """Return the first words of a response in one line, or None without text."""
    for block in blocks:
        if block.kind == TEXT and (line := _fold(block.text(TEXT))):
            return clean_text(line)
    return None


def read_target(block: Block) -> str | None:
    """Return the target of a tool use in one line: a file, a command or a pattern; or None."""
    fields = block.input if isinstance(block.input, dict) else {}
    texts = (as_text(fields.get(name)).strip() for name in _TARGETS)
    first = next(filter(None, texts), "")
    return clean_text(first.partition("\n")[0].rstrip())


def _read_use(block: Block, result: ToolResult | None) -> ToolUse:
    # The input of a call that was cut is a text.
    fields = block.input if isinstance(block.input, dict) else {}
    name = read_name(block)
    plus, minus = _count_lines(fields)
    return ToolUse(
        tool=name.tool,
        server=name.server,
        target=read_target(block),
        result=result,
        plus=plus,
        minus=minus,
    )


def _count_lines(fields: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return how many lines an input adds and removes, each None if unknown."""
    changes = [
        _compare(as_text(edit.get(old)), as_text(edit.get(new)))
        for edit in (fields, *as_objects(fields.get("edits")))
        for old, new in _REPLACEMENTS
        if old in edit
    ]
    if changes:
        return sum(plus for plus, _ in changes), sum(minus for _, minus in changes)
    if not any(isinstance(fields.get(name), str) for name in _FILES):
        return None, None
    for name in _WHOLE_FILES:  # what was there before is not known
        if isinstance(written := fields.get(name), str):
            return len(_split_lines(written)), None
    if "insert_line" in fields:
        return len(_split_lines(as_text(fields.get("insert_text", fields.get("new_str"))))), 0
    if isinstance(source := fields.get("new_source"), str):  # a cell of a notebook
        mode = fields.get("edit_mode")
        added = 0 if mode == "delete" else len(_split_lines(source))
        return added, 0 if mode == "insert" else None
    return None, None


def _compare(old: str, new: str) -> tuple[int, int]:
    """Return how many lines are added and removed between the equal lines at beginning and end."""
    before, now = _split_lines(old), _split_lines(new)
    start = _count_shared(before, now)
    end = _count_shared(before[start:][::-1], now[start:][::-1])
    return len(now) - start - end, len(before) - start - end


def _count_shared(one: list[str], other: list[str]) -> int:
    """Return how many lines at the beginning of two lists are equal."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _split_lines(text: str) -> list[str]:
    """Return the lines of a text as ``diff`` counts them: the last one may lack its line end."""
    return text.removesuffix("\n").split("\n") if text else []


def _fold(text: str) -> str:
    """Return the beginning of a text in one line, splitting no more of the text than necessary."""
    line = " ".join(text[:_ENOUGH_CHARS].split())
    if len(line) < SAID_CHARS and len(text) > _ENOUGH_CHARS:  # much of it is blank
        most_words = SAID_CHARS // 2 + 1  # each takes a character and a blank at least
        line = " ".join(text.split(maxsplit=most_words)[:most_words])
    return line[:SAID_CHARS].rstrip()
