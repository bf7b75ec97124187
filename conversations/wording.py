"""Sentences about the difference between two prompts, which quote as little of their text as possible.

Both requests are parsed again for this, but only after a cache break."""

from collections.abc import Sequence

import orjson

from conversations.unit import SETTINGS, Unit
from conversations.units import ATTRIBUTION_BLOCK, TOOL, WEB_SEARCH, Prompt
from wire.block import CALL, Block, without_marker
from wire.conversation_memory import shared_length
from wire.json_reading import as_object, clean_text
from wire.request import Request

MAX_QUOTE_CHARS, MAX_DETAIL_CHARS = 40, 240
_PLACES = {WEB_SEARCH: "web search", ATTRIBUTION_BLOCK: "the attribution block of Claude Code"}
_KIND_WORDS = {
    "text": "text",
    "tool_use": "tool call",
    "tool_result": "tool result",
    "image": "image",
    "document": "document",
    "thinking": "thinking",
    SETTINGS: "settings",
}
_WITHOUT_ARTICLE = ("thinking", "settings")


def describe_tools(before: Prompt, now: Prompt, requests: tuple[Request, Request]) -> str:
    """Return a clause that says which tools were added, removed, changed or moved."""
    old = _list_tools(before, requests[0])
    new = _list_tools(now, requests[1])
    if gone := [name for name in old if name not in new]:
        return f"{_name_all(gone)} removed"
    if added := [name for name in new if name not in old]:
        return f"{_name_all(added)} added"
    changed = [name for name in old if old[name][0].digest != new[name][0].digest]
    if changed:
        name = changed[0]
        words = _compare_texts(_as_text(old[name][1]), _as_text(new[name][1]))
        return f"{_name_all(changed)} changed" + (f": {words}" if words else "")
    shuffled = [name for name in old if old[name][0].order != new[name][0].order]
    if shuffled:
        return f"the order of the keys of {_quote(shuffled[0])} changed"
    moved = [one for one, other in zip(old, new, strict=False) if one != other]
    return f"{_quote(moved[0])} was moved" if moved else "they are listed otherwise"


def describe_unit(
    before: Prompt,
    now: Prompt,
    index: tuple[int, int],
    requests: tuple[Request, Request],
) -> str:
    """Return a clause that says what changed in the unit with this index in each prompt."""
    old = before.units[index[0]] if index[0] < len(before.units) else None
    new = now.units[index[1]] if index[1] < len(now.units) else None
    level = (old or new or before.units[-1]).level
    if old is None or old.level != level or new is None or new.level != level:
        return "a block was added" if old is None else "a block was removed"
    if new.digest in {unit.digest for unit in before.units[index[0] + 1 :]}:
        return f"{_name_kind(old)} was removed"
    if old.digest in {unit.digest for unit in now.units[index[1] + 1 :]}:
        return f"{_name_kind(new)} was added"
    if (old.kind, old.role) != (new.kind, new.role):
        return f"{_name_kind(old)} was replaced by {_name_kind(new)}"
    if old.digest == new.digest:
        return "the order of the keys changed"
    words = _compare_texts(
        _as_text(find_block(requests[0], old)), _as_text(find_block(requests[1], new))
    )
    return words or f"{_name_kind(new)} changed"


def name_place(unit: Unit, *, with_block: bool) -> str:
    """Return the place of a unit in words, counted from 1: ``system block 2``."""
    if unit.level == "tools":
        return "the tools"
    if unit.kind in _PLACES:
        return _PLACES[unit.kind]
    if unit.kind == SETTINGS:
        return f"the settings of message {unit.message + 1}"
    if unit.level == "system":
        return f"system block {unit.block + 1}"
    block = f", block {unit.block + 1}" if with_block else ""
    return f"message {unit.message + 1}{block}"


def bound(detail: str) -> str:
    """Return a sentence cut to a length and characters that SQLite can store."""
    if len(detail) > MAX_DETAIL_CHARS:
        detail = f"{detail[: MAX_DETAIL_CHARS - 1]}…"
    return clean_text(detail, MAX_DETAIL_CHARS) or ""


def find_block(request: Request, unit: Unit) -> Block | None:
    """Return the block of a request that a unit was made from, or None if it is not there."""
    blocks: Sequence[Block]
    if unit.level == "messages":
        messages = request.messages[unit.message : unit.message + 1]
        if unit.kind == SETTINGS:
            return Block(messages[0].settings) if messages else None
        blocks = messages[0].blocks if messages else ()
    elif unit.level == "system" and unit.kind != WEB_SEARCH:
        blocks = request.system
    else:
        blocks = request.tools if unit.kind in (TOOL, WEB_SEARCH) else request.mcp_servers
    return blocks[unit.block] if unit.block < len(blocks) else None


def _list_tools(prompt: Prompt, request: Request) -> dict[str, tuple[Unit, Block]]:
    """Return the units and blocks of tools by name. If a name occurs twice, the later one is returned."""
    found: dict[str, tuple[Unit, Block]] = {}
    for unit in prompt.units:
        if unit.level != "tools":
            break
        tool = find_block(request, unit) or Block(None)
        name = tool.name or tool.mcp_server_name
        found[name or tool.kind or "(without a name)"] = unit, tool
    return found


def _name_all(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{_quote(names[0])} was"
    return f"{_quote(names[0])} and {len(names) - 1} more were"


def _name_kind(unit: Unit) -> str:
    kind = _KIND_WORDS.get(unit.kind)
    if kind is None:
        return "a block"
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" if kind not in _WITHOUT_ARTICLE else kind


def _as_text(block: Block | None) -> str:
    """Return the text of a block, or its JSON if it has none, for comparison."""
    if block is None:
        return "{}"
    match block.kind:
        case "text" | "thinking" as name:
            return block.text(name)
        case "tool_result":
            return "\n".join(part.text() for part in block.list_parts())
        case "image" | "redacted_thinking":
            return ""
    fields = as_object(block.input) if block.kind == CALL else block.fields
    try:
        return orjson.dumps(without_marker(fields)).decode()
    except orjson.JSONEncodeError:  # nested deeply, or lone surrogates
        return ""


def _compare_texts(before: str, now: str) -> str | None:
    """Return a clause that quotes the words in which two texts differ, or None without a difference."""
    old, new = _find_difference(before, now)
    if old and new:
        return f"{_quote(old)} became {_quote(new)}"
    if new:
        return f"{_quote(new)} was added"
    return f"{_quote(old)} was removed" if old else None


def _find_difference(before: str, now: str) -> tuple[str, str]:
    """Return both texts without the words at their beginnings and ends that are equal."""
    one, other = before.encode("utf-8", "replace"), now.encode("utf-8", "replace")
    start = shared_length(one, other)
    if start == len(one) == len(other):
        return "", ""
    start = _find_word_start(one, other, start)
    one, other = one[start:], other[start:]
    end = shared_length(one[::-1], other[::-1])
    end = _find_word_start(one[::-1], other[::-1], end)
    parts = (part[: len(part) - end].decode("utf-8", "ignore") for part in (one, other))
    old, new = (" ".join(part.split()) for part in parts)
    return old, new


def _find_word_start(one: bytes, other: bytes, place: int) -> int:
    """Return the beginning of the word at ``place``, the first position where both texts differ."""
    after = (one[place : place + 1], other[place : place + 1])
    if all(not byte or byte.isspace() for byte in after):
        return place
    word = max(one.rfind(space, 0, place) for space in (b" ", b"\n", b"\t", b"\r")) + 1
    return max(word, place - MAX_QUOTE_CHARS // 2)


def _quote(text: str) -> str:
    if len(text) > MAX_QUOTE_CHARS:
        text = f"{text[: MAX_QUOTE_CHARS - 1]}…"
    return f"“{text}”"
