"""Content blocks of messages as a page shows them.

Every kind that is known has a way of its own; any other is shown as the JSON it is. Nothing here
raises, whatever the shape.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from dashboard.call.excerpts import EMPTY, Allowance, Excerpt
from metering.formats import format_bytes
from metering.json_reading import as_list, as_object, as_text
from runtime.safe_text import reveal

MAX_DEPTH = 3
MAX_LABEL_CHARS = 200
LONG_CHARS, LONG_LINES = 1_500, 20

type Kind = Literal["text", "thinking", "call", "result", "media", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One content block, as text to be displayed (see ``runtime.safe_text``) and to be escaped. ``label``
    names the kind of block, ``name`` the tool, file or model."""

    kind: Kind
    label: str = ""
    name: str = ""
    notes: tuple[str, ...] = ()
    text: str = ""
    left_out: int = 0
    is_code: bool = False
    is_error: bool = False
    parts: tuple["Block", ...] = ()

    @property
    def length(self) -> int:
        """Return the number of characters, with those left out."""
        return len(self.text) + self.left_out + sum(part.length for part in self.parts)

    @property
    def is_long(self) -> bool:
        """Return whether the block is to be folded."""
        if len(self.text) > LONG_CHARS or self.text.count("\n") > LONG_LINES:
            return True
        return self.length > LONG_CHARS or any(part.is_long for part in self.parts)


def read_content(content: object, allowance: Allowance, depth: int = 0) -> tuple[Block, ...]:
    """Return the blocks of a content, which is a text or a list. What exceeds the allowance is left
    out and counted."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (_make("text", allowance.take(content)),)
    if not isinstance(content, list):
        return (_make("other", allowance.take_json(content), is_code=True),)
    blocks: list[Block] = []
    for place, item in enumerate(content):
        if allowance.is_used_up:
            count = len(content) - place
            blocks.append(Block(kind="other", label=f"{count} more not shown"))
            break
        blocks.append(read_block(item, allowance, depth))
    return tuple(blocks)


def read_block(item: object, allowance: Allowance, depth: int = 0) -> Block:
    """Return a block by its type; a block of an unknown type, or nested too deeply, as JSON."""
    if not isinstance(item, dict) or depth > MAX_DEPTH:
        return _make("other", allowance.take_json(item), is_code=True)
    kind = as_text(item.get("type"))
    if kind.endswith("_tool_result"):
        kind = "tool_result"
    elif kind.endswith("_tool_use"):
        kind = "tool_use"
    return _READERS.get(kind, _read_other)(item, allowance, depth)


def short(value: object) -> str:
    """Return a name or identifier, cut to the length of a label."""
    text = value if isinstance(value, str) else ""
    cut = text[:MAX_LABEL_CHARS]
    return reveal(cut.replace("\n", " ")) + ("…" if len(cut) < len(text) else "")


def cache_note(item: Mapping[str, object]) -> tuple[str, ...]:
    """Return a note for a block that has a cache breakpoint, otherwise nothing."""
    marker = item.get("cache_control")
    if not isinstance(marker, dict):
        return ()
    ttl = short(marker.get("ttl"))
    return (f"cache breakpoint, {ttl}",) if ttl else ("cache breakpoint",)


def _make(
    kind: Kind,
    excerpt: Excerpt = EMPTY,
    *,
    label: str = "",
    name: str = "",
    notes: tuple[str, ...] = (),
    is_code: bool = False,
    is_error: bool = False,
    parts: tuple[Block, ...] = (),
) -> Block:
    return Block(
        kind=kind,
        label=label,
        name=name,
        notes=notes,
        text=excerpt.text,
        left_out=excerpt.left_out,
        is_code=is_code,
        is_error=is_error,
        parts=parts,
    )


def _read_text(item: dict[str, object], allowance: Allowance, _depth: int) -> Block:
    notes = cache_note(item)
    citations = len(as_list(item.get("citations")))
    if citations:
        notes += (f"{citations} citation{'s' if citations > 1 else ''}",)
    return _make("text", allowance.take(as_text(item.get("text"))), notes=notes)


def _read_thinking(item: dict[str, object], allowance: Allowance, _depth: int) -> Block:
    text = as_text(item.get("thinking"))
    notes = cache_note(item)
    if item.get("signature"):
        notes += ("signed",)
    if not text:
        notes += ("text not included",)
    return _make("thinking", allowance.take(text), label="Thinking", notes=notes)


def _read_redacted(item: dict[str, object], allowance: Allowance, _depth: int) -> Block:
    size = format_bytes(len(as_text(item.get("data"))))
    return _make("thinking", allowance.take(""), label="Thinking", notes=(f"encrypted, {size}",))


def _read_call(item: dict[str, object], allowance: Allowance, _depth: int) -> Block:
    notes = tuple(filter(None, (short(item.get("id")),))) + cache_note(item)
    kind = as_text(item.get("type"))
    label = "Tool call" if kind == "tool_use" else f"Tool call ({short(kind)})"
    given = item.get("input")
    # What was cut in the middle of its JSON is the text that came.
    excerpt = allowance.take(given) if isinstance(given, str) else allowance.take_json(given)
    return _make(
        "call", excerpt, label=label, name=short(item.get("name")), notes=notes, is_code=True
    )


def _read_result(item: dict[str, object], allowance: Allowance, depth: int) -> Block:
    kind = as_text(item.get("type"))
    content = item.get("content")
    is_error = item.get("is_error") is True or as_text(as_object(content).get("type")).endswith(
        "_error"
    )
    label = "Tool result" if kind == "tool_result" else f"Tool result ({short(kind)})"
    notes = tuple(filter(None, (short(item.get("tool_use_id")),))) + cache_note(item)
    excerpt = EMPTY
    parts: tuple[Block, ...] = ()
    if isinstance(content, str):  # output of programs, mostly
        excerpt = allowance.take(content)
    else:
        parts = read_content(content, allowance, depth + 1)
    return _make(
        "result", excerpt, label=label, notes=notes, is_code=True, is_error=is_error, parts=parts
    )


def _read_media(item: dict[str, object], allowance: Allowance, depth: int) -> Block:
    source = as_object(item.get("source"))
    notes = [short(source.get("media_type"))]
    data = as_text(source.get("data"))
    excerpt = EMPTY
    parts: tuple[Block, ...] = ()
    match source.get("type"):
        case "base64":
            notes.append(format_bytes(len(data) * 3 // 4 - data[-2:].count("=")))
        case "text":
            excerpt = allowance.take(data)
        case "url":
            notes.append(short(source.get("url")))
        case "file":
            notes.append(f"file {short(source.get('file_id'))}")
        case "content":
            parts = read_content(source.get("content"), allowance, depth + 1)
        case _:
            excerpt = allowance.take_json(item.get("source"))
    allowance.take("")
    return _make(
        "media",
        excerpt,
        label=short(item.get("type")).capitalize(),
        name=short(item.get("title")),
        notes=(*filter(None, notes), *cache_note(item)),
        is_code=True,
        parts=parts,
    )


def _read_fallback(item: dict[str, object], allowance: Allowance, _depth: int) -> Block:
    models = [short(as_object(item.get(key)).get("model")) for key in ("from", "to")]
    allowance.take("")
    return _make("other", label="Fallback", name=" → ".join(filter(None, models)))


def _read_other(item: dict[str, object], allowance: Allowance, _depth: int) -> Block:
    rest = {
        key: f"({format_bytes(len(value))})"
        if key.startswith("encrypted_") and isinstance(value, str)
        else value
        for key, value in item.items()
        if key not in ("type", "cache_control")
    }
    return _make(
        "other",
        allowance.take_json(rest),
        label=short(item.get("type")) or "Block without a type",
        notes=cache_note(item),
        is_code=True,
    )


_READERS: Mapping[str, Callable[[dict[str, object], Allowance, int], Block]] = {
    "text": _read_text,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "tool_use": _read_call,
    "tool_result": _read_result,
    "image": _read_media,
    "document": _read_media,
    "fallback": _read_fallback,
}
