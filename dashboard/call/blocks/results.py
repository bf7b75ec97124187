"""Results of tools: output, found sources, files, and the errors of them."""

from collections.abc import Callable

from dashboard.call.blocks.calls import find_file_language
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.texts import read_rest, read_sources
from dashboard.call.blocks.view import Block, Piece, cache_note, short
from wire.json_reading import as_objects, as_text

_FOUND = ("web_search_result",)

type ReadParts = Callable[[object], tuple[Block, ...]]


def read_result(item: dict[str, object], room: Room, read_parts: ReadParts) -> Block:
    """Return the result of a tool: text, or a list of blocks or of sources."""
    tool_id = as_text(item.get("tool_use_id"))
    name, given = room.calls.get(tool_id, ("", None))
    content = item.get("content")
    pieces: list[Piece] = []
    parts: tuple[Block, ...] = ()
    if isinstance(content, str):  # output of programs, mostly
        pieces.append(room.plain(content, language=_guess_language(content, given)))
    elif _is_found(content):
        pieces.append(read_sources(as_objects(content), room))
    else:
        parts = read_parts(content)
    pieces += read_rest(item, room, ("tool_use_id", "content", "is_error", "caller"))
    return _make(item, room, name, pieces, parts, is_error=item.get("is_error") is True)


def read_server_result(
    item: dict[str, object], content: dict[str, object], room: Room, read_parts: ReadParts
) -> Block:
    """Return the result of a tool of upstream, which is an object."""
    kind = as_text(content.get("type"))
    name, _ = room.calls.get(as_text(item.get("tool_use_id")), ("", None))
    pieces: list[Piece] = []
    parts: tuple[Block, ...] = ()
    shown = ["content"]
    if kind == "text":
        parts = read_parts([content])
        shown = list(content)
    else:
        if isinstance(text := content.get("text"), str):
            pieces.append(room.prose(text))
            shown.append("text")
        inner = content.get("content")
        if isinstance(inner, str):
            pieces.append(room.plain(inner))
        elif inner:
            parts = read_parts(inner if isinstance(inner, list) else [inner])
    pieces = [*read_rest(content, room, shown), *pieces]
    pieces += read_rest(item, room, ("tool_use_id", "content", "is_error", "caller"))
    failed = item.get("is_error") is True or kind.endswith("_error")
    return _make(item, room, name, pieces, parts, is_error=failed)


def _make(
    item: dict[str, object],
    room: Room,
    name: str,
    pieces: list[Piece],
    parts: tuple[Block, ...],
    *,
    is_error: bool,
) -> Block:
    if not pieces and not parts:
        room.take("")
    kind = as_text(item.get("type"))
    plain = kind == "tool_result" or name
    return Block(
        kind="result",
        label="Tool result" if plain else f"Tool result ({short(kind)})",
        name=short(name),
        notes=cache_note(item),
        pieces=tuple(pieces),
        parts=parts,
        is_error=is_error,
        id=as_text(item.get("tool_use_id")),
    )


def _is_found(content: object) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(each, dict) and each.get("type") in _FOUND for each in content)


def _guess_language(content: str, given: object) -> str:
    """Return the language of a file that was read, or JSON where the output begins and ends as it."""
    if content[:1] in "{[" and content.rstrip()[-1:] in "}]" and len(content) > 1:
        return "json"
    return find_file_language(given)
