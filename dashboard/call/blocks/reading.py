"""Views of content blocks, by their types.

Each known type has a function of its own; any other is shown as its JSON, and so is a field that a known
type does not have. Nothing here raises an error, whatever the shape of the input. Tool calls are shown
together with their results, which are in a later message, or later in the same one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dashboard.call.blocks import calls, media, results, texts
from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, cache_note, short
from wire.block import OF_BLOCK, is_call, is_result
from wire.json_reading import as_object, as_text

MAX_DEPTH = 3


def read_content(
    content: object, room: Room, place: str = "", depth: int = 0, start: int = 0
) -> tuple[Block, ...]:
    """Return the views of the blocks of ``content`` (a text or a list), from index ``start`` on. Blocks
    beyond the room of the page are left out, and the last view has their number. ``place`` is the place
    of the content in its body."""
    if content is None:
        return ()
    if not isinstance(content, list):
        return (replace(_read_lone(content, room), place=_join(place, 0), source=content),)
    blocks: list[Block] = []
    for number in range(start, len(content)):
        if room.allowance.is_used_up:
            label = f"{len(content) - number} more not shown"
            blocks.append(Block(kind="other", label=label, source=content[number:]))
            break
        blocks.append(read_block(content[number], room, _join(place, number), depth))
    return tuple(blocks)


def read_block(item: object, room: Room, place: str = "", depth: int = 0) -> Block:
    """Return the view of a block by its type; if that is unknown or nested too deeply, the block as JSON."""
    if not isinstance(item, dict) or depth > MAX_DEPTH:
        return Block(kind="other", pieces=(room.json(item),), place=place, source=item)
    kind = as_text(item.get("type"))
    if kind in _WITH_PARTS or is_result(kind):
        found = _read_with_parts(kind, item, room, place, depth)
    else:
        read = calls.read_call if is_call(kind) else _READERS.get(kind, read_other)
        found = read(item, room, place)
    return replace(found, place=place, source=item)


def join_results(groups: Sequence[tuple[Block, ...]]) -> list[tuple[Block, ...]]:
    """Return the blocks of each message, with each tool result moved into the block of its tool call. A
    result without a call among the messages stays where it is."""
    results: dict[str, Block] = {}
    called: set[str] = set()
    for blocks in groups:
        for block in blocks:
            if block.kind == "call" and block.id:
                called.add(block.id)
            elif block.kind == "result" and block.id in called:
                results.setdefault(block.id, block)
    taken = {id(block) for block in results.values()}
    return [
        tuple(_attach(block, results) for block in blocks if id(block) not in taken)
        for blocks in groups
    ]


def _attach(block: Block, results: Mapping[str, Block]) -> Block:
    if block.kind != "call" or block.id not in results:
        return block
    return replace(block, result=results[block.id])


def read_other(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a block of unknown type, as JSON."""
    rest = {key: value for key, value in item.items() if key not in OF_BLOCK}
    label = short(item.get("type")) or "Block without a type"
    pieces = (room.json(rest),) if rest else ()
    return Block(kind="other", label=label, notes=cache_note(item), pieces=pieces)


def _read_lone(content: object, room: Room) -> Block:
    if isinstance(content, str):
        return Block(kind="text", pieces=(room.prose(content),))
    return Block(kind="other", pieces=(room.json(content),))


def _read_with_parts(
    kind: str, item: dict[str, object], room: Room, place: str, depth: int
) -> Block:
    """Return the view of a block that may contain other blocks."""

    def read_parts(content: object) -> tuple[Block, ...]:
        return read_content(content, room, place, depth + 1)

    match kind:
        case "document":
            return media.read_document(item, room, place, read_parts)
        case "search_result":
            return texts.read_search_result(item, room, read_parts)
        case _:
            content = as_object(item.get("content"))
            if not content.get("type"):
                return results.read_result(item, room, read_parts)
            return results.read_server_result(item, content, room, read_parts)


def _join(place: str, number: int) -> str:
    return f"{place}.{number}" if place else str(number)


_WITH_PARTS = {"document", "search_result"}
_READERS: Mapping[str, Callable[[dict[str, object], Room, str], Block]] = {
    "text": texts.read_text,
    "thinking": texts.read_thinking,
    "redacted_thinking": texts.read_redacted,
    "compaction": texts.read_compaction,
    "fallback": texts.read_fallback,
    "image": media.read_image,
    "container_upload": media.read_upload,
}
