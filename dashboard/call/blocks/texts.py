"""Views of blocks of text: text with its citations, thinking, search results, compaction, fallback."""

from collections.abc import Iterable, Mapping

from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Block, Piece, ReadParts, Source, Sources, cache_note, short
from metering.formats import format_bytes
from runtime.safe_text import reveal
from wire.block import OF_BLOCK
from wire.json_reading import as_list, as_object, as_objects, as_text

_LINKED = ("http://", "https://")
_MAX_SOURCES = 200
_OPAQUE = ("encrypted_content", "encrypted_index", "encrypted_stdout", "signature", "data")


def read_text(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a text block, with its citations below it."""
    cited = as_list(item.get("citations"))
    notes = cache_note(item)
    pieces: list[Piece] = [room.prose(as_text(item.get("text")))]
    if cited:
        notes += (f"{len(cited)} citation{'s' if len(cited) > 1 else ''}",)
        pieces.append(read_sources(as_objects(cited), room, "Cited"))
    pieces += read_rest(item, room, ("text", "citations"))
    return Block(kind="text", notes=notes, pieces=tuple(pieces))


def read_thinking(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a thinking block whose text is not encrypted."""
    text = as_text(item.get("thinking"))
    notes = cache_note(item)
    if item.get("signature"):
        notes += ("signed",)
    if not text:
        notes += ("text not included",)
    pieces = (
        *((room.prose(text),) if text else ()),
        *read_rest(item, room, ("thinking", "signature")),
    )
    return Block(kind="thinking", label="Thinking", notes=notes, pieces=pieces)


def read_redacted(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of an encrypted thinking block, with the size of its data."""
    size = format_bytes(len(as_text(item.get("data"))))
    room.take("")
    return Block(
        kind="thinking",
        label="Redacted thinking",
        notes=(f"encrypted, {size}", *cache_note(item)),
        pieces=read_rest(item, room, ("data",)),
    )


def read_compaction(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a compaction block: the summary that replaces the earlier conversation."""
    content = item.get("content")
    pieces: tuple[Piece, ...] = ()
    if isinstance(content, str):
        pieces = (room.prose(content),)
    elif content is not None:
        pieces = (room.json(content),)
    return Block(
        kind="other",
        label="Compaction",
        notes=(*(() if content else ("no summary included",)), *_sizes(item), *cache_note(item)),
        pieces=(*pieces, *read_rest(item, room, ("content",))),
    )


def read_fallback(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a fallback block, which marks where another model took over."""
    models = [short(as_object(item.get(key)).get("model")) for key in ("from", "to")]
    room.take("")
    return Block(
        kind="other",
        label="Fallback",
        name=" → ".join(filter(None, models)),
        pieces=read_rest(item, room, ("from", "to")),
    )


def read_search_result(item: dict[str, object], room: Room, read_parts: ReadParts) -> Block:
    """Return the view of a search result that the client provided."""
    return Block(
        kind="media",
        label="Search result",
        name=short(item.get("title")),
        notes=cache_note(item),
        pieces=read_rest(item, room, ("title", "content")),
        parts=read_parts(item.get("content")),
    )


def read_sources(found: Iterable[Mapping[str, object]], room: Room, label: str = "") -> Sources:
    """Return the view of sources that were found or cited, as a list of ``_MAX_SOURCES`` at most."""
    items = list(found)
    shown = []
    for item in items[:_MAX_SOURCES]:
        if room.allowance.is_used_up:
            break
        shown.append(_read_source(item, room))
    return Sources(items=tuple(shown), label=label, left_out=len(items) - len(shown))


def read_rest(item: Mapping[str, object], room: Room, known: Iterable[str]) -> tuple[Piece, ...]:
    """Return the views of the fields that are not in ``known``. Encrypted values (signatures, contents)
    are left out here; the JSON of the block has them."""
    left_to_json = {*OF_BLOCK, *_OPAQUE, *known}
    return room.fields({key: value for key, value in item.items() if key not in left_to_json})


def _sizes(item: Mapping[str, object]) -> tuple[str, ...]:
    sizes = [len(as_text(item.get(key))) for key in _OPAQUE]
    return tuple(f"encrypted, {format_bytes(size)}" for size in sizes if size)


def _read_source(item: Mapping[str, object], room: Room) -> Source:
    address = as_text(item.get("url")) or as_text(item.get("source"))
    title = as_text(item.get("title")) or as_text(item.get("document_title")) or address
    known = {"type", "url", "source", "title", "document_title", "cited_text", *_OPAQUE}
    notes = [
        f"{short(key).replace('_', ' ')} {short(value) if isinstance(value, str) else value}"
        for key, value in item.items()
        if key not in known and isinstance(value, str | int | float) and value != ""
    ]
    room.take("")
    return Source(
        title=room.take(title).text or "Untitled",
        address=reveal(address) if address.startswith(_LINKED) and address != title else "",
        notes=tuple(notes),
        quote=room.take(as_text(item.get("cited_text"))).text,
    )
