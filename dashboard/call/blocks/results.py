"""Views of tool results: output of programs, sources that were found, files, and errors."""

from dashboard.call.blocks.calls import find_file_language
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.texts import read_rest, read_sources
from dashboard.call.blocks.view import Block, Piece, ReadParts, cache_note, short
from metering.tool_names import split_name
from wire import block as wire
from wire.json_reading import as_objects, as_text

_FOUND = ("web_search_result",)
_NO_CALL = wire.Block(None)


def read_result(item: dict[str, object], room: Room, read_parts: ReadParts) -> Block:
    """Return the view of a tool result: a text, or a list of blocks or of sources that were found."""
    result = wire.Block(item)
    call = room.calls.get(result.call_id, _NO_CALL)
    content = result.content
    pieces: list[Piece] = []
    parts: tuple[Block, ...] = ()
    if isinstance(content, str):  # output of programs, mostly
        pieces.append(room.plain(content, language=_guess_language(content, call.input)))
    elif _is_found(content):
        pieces.append(read_sources(as_objects(content), room))
    else:
        parts = read_parts(content)
    pieces += read_rest(item, room, wire.OF_RESULT)
    return _make(result, room, call.name, pieces, parts, is_error=result.is_error)


def read_server_result(
    item: dict[str, object], content: dict[str, object], room: Room, read_parts: ReadParts
) -> Block:
    """Return the view of the result of a tool that upstream ran, whose content is an object."""
    kind = as_text(content.get("type"))
    result = wire.Block(item)
    call = room.calls.get(result.call_id, _NO_CALL)
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
    pieces += read_rest(item, room, wire.OF_RESULT)
    failed = result.is_error or kind.endswith("_error")
    return _make(result, room, call.name, pieces, parts, is_error=failed)


def _make(
    result: wire.Block,
    room: Room,
    name: str,
    pieces: list[Piece],
    parts: tuple[Block, ...],
    *,
    is_error: bool,
) -> Block:
    if not pieces and not parts:
        room.take("")
    plain = result.kind == wire.RESULT or name
    return Block(
        kind="result",
        label="Result of" if name else "Result" if plain else f"Result ({short(result.kind)})",
        name=short(split_name(name)[1]),
        notes=cache_note(result.fields),
        pieces=tuple(pieces),
        parts=parts,
        is_error=is_error,
        id=result.call_id,
    )


def _is_found(content: object) -> bool:
    if not isinstance(content, list) or not content:
        return False
    return all(isinstance(each, dict) and each.get("type") in _FOUND for each in content)


def _guess_language(content: str, given: object) -> str:
    """Return "json" if the output looks like JSON, otherwise the language of the file that was read."""
    if content[:1] in "{[" and content.rstrip()[-1:] in "}]" and len(content) > 1:
        return "json"
    return find_file_language(given)
