"""Views of images and documents.

Images whose data are in the body come from an address of our own (``files.py``); those that are
elsewhere are named and never loaded.
"""

from dashboard.call.blocks.room import Room
from dashboard.call.blocks.texts import read_rest
from dashboard.call.blocks.view import Block, File, Picture, Piece, ReadParts, cache_note, short
from dashboard.call.files import MAX_PICTURE_CHARS, find_picture_type
from metering.formats import format_bytes
from wire.json_reading import as_object, as_text


def read_image(item: dict[str, object], room: Room, place: str) -> Block:
    """Return the view of an image: the picture if its type is known and it is not too large, else a
    download."""
    source = as_object(item.get("source"))
    notes, pieces = _read_source(source, room)
    data = as_text(source.get("data"))
    address = f"{room.address}/file/{place}"
    if source.get("type") == "base64" and room.address:
        if len(data) <= MAX_PICTURE_CHARS and find_picture_type(data) is not None:
            pieces.insert(0, Picture(address=address, words=f"Image, {notes[-1]}"))
        else:
            pieces.insert(0, File(address=address, words="Download the image"))
    room.take("")
    return Block(
        kind="media",
        label="Image",
        notes=(*notes, *cache_note(item)),
        pieces=(*pieces, *read_rest(item, room, ("source",))),
    )


def read_document(item: dict[str, object], room: Room, place: str, read_parts: ReadParts) -> Block:
    """Return the view of a document: its text or blocks, or a link to download it."""
    source = as_object(item.get("source"))
    notes, pieces = _read_source(source, room)
    parts: tuple[Block, ...] = ()
    match source.get("type"):
        case "base64" if room.address:
            address = f"{room.address}/file/{place}"
            pieces.insert(0, File(address=address, words="Download the document"))
        case "text":
            pieces.append(room.prose(as_text(source.get("data"))))
        case "content":
            parts = read_parts(source.get("content"))
    room.take("")
    return Block(
        kind="media",
        label="Document",
        name=short(item.get("title")),
        notes=(*notes, *cache_note(item)),
        pieces=(*pieces, *read_rest(item, room, ("source", "title"))),
        parts=parts,
    )


def read_upload(item: dict[str, object], room: Room, _place: str) -> Block:
    """Return the view of a file that was uploaded to a container."""
    room.take("")
    return Block(
        kind="media",
        label="Container upload",
        name=short(item.get("file_id")),
        notes=cache_note(item),
        pieces=read_rest(item, room, ("file_id",)),
    )


def _read_source(source: dict[str, object], room: Room) -> tuple[list[str], list[Piece]]:
    """Return notes about the data of a source (type, size, location), and views of its remaining fields."""
    notes = [short(source.get("media_type"))]
    shown = ["type", "media_type", "data", "content"]
    match source.get("type"):
        case "base64":
            data = as_text(source.get("data"))
            notes.append(format_bytes(len(data) * 3 // 4 - data[-2:].count("=")))
        case "url":
            notes.append("not loaded")
        case "file":
            notes.append(f"file {short(source.get('file_id'))}")
            shown.append("file_id")
        case "text" | "content":
            pass
        case _:
            shown = []
    rest = {key: value for key, value in source.items() if key not in shown}
    return [note for note in notes if note], list(room.fields(rest))
