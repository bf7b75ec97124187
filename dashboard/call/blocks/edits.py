"""Edits of files as differences, read from the inputs of the editing tools of clients."""

from difflib import SequenceMatcher

from dashboard.call.blocks.room import Room
from dashboard.call.blocks.view import Diff, Piece, Sign
from wire.json_reading import as_objects, as_text

MAX_COMPARED = 1_000_000  # lines of one text by lines of the other
_OLD_AND_NEW = (
    ("old_string", "new_string"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
    ("old_source", "new_source"),
)
FILE_NAMES = ("file_path", "path", "notebook_path", "filename", "target_file")
_WHOLE = ("content", "file_text", "new_source", "insert_text", "new_str")
_PATCHES = ("patch", "diff")

type Read = tuple[tuple[Piece, ...], tuple[str, ...]]


def read_edit(given: dict[str, object], room: Room) -> Read | None:
    """Return the view of an edit and the names of the input's fields in it, None if it is no edit."""
    for old, new in _OLD_AND_NEW:
        if isinstance(given.get(old), str) and isinstance(given.get(new, ""), str):
            shown = (old, new) if new in given else (old,)
            return (compare(as_text(given[old]), as_text(given.get(new)), room),), shown
    if found := _read_edits(given, room):
        return found
    if any(isinstance(given.get(path), str) for path in FILE_NAMES):
        for name in _WHOLE:
            if isinstance(text := given.get(name), str):
                return (compare("", text, room),), (name,)
    for name in _PATCHES:
        if isinstance(text := given.get(name), str) and "\n" in text:
            return (_read_patch(text, room),), (name,)
    return None


def _read_edits(given: dict[str, object], room: Room) -> Read | None:
    """Return the views of the list ``edits`` of a tool's input. Other fields of each edit follow its
    difference."""
    edits = given.get("edits")
    if not isinstance(edits, list) or not edits:
        return None
    for old, new in _OLD_AND_NEW:
        items = as_objects(edits)
        if all(isinstance(item.get(old), str) and isinstance(item.get(new), str) for item in items):
            pieces: list[Piece] = []
            for number, item in enumerate(items, 1):
                rest = {key: value for key, value in item.items() if key not in (old, new)}
                label = f"Edit {number}" if len(items) > 1 else ""
                pieces.append(compare(as_text(item[old]), as_text(item[new]), room, label))
                pieces += room.fields(rest)
            return tuple(pieces), ("edits",)
    return None


def compare(old: str, new: str, room: Room, label: str = "") -> Diff:
    """Return the difference of two texts by lines, with the unchanged lines. Long texts are cut by
    ``room``."""
    shown_old, left_out = room.take(old)
    shown_new, more = room.take(new)
    max_compared = 0 if room.is_plain else MAX_COMPARED
    lines = compare_lines(_split(shown_old), _split(shown_new), max_compared)
    return Diff(lines=lines, label=label, left_out=left_out + more)


def compare_lines(
    old: list[str], new: list[str], max_compared: int = MAX_COMPARED
) -> tuple[tuple[Sign, str], ...]:
    """Return all lines of both texts, each marked as removed, added or unchanged. If the product of their
    numbers of lines exceeds ``max_compared``, all of ``old`` are removed and all of ``new`` added."""
    if len(old) * len(new) > max_compared:
        return (*(("-", line) for line in old), *(("+", line) for line in new))
    lines: list[tuple[Sign, str]] = []
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(
        None, old, new
    ).get_opcodes():
        if tag == "equal":
            lines += ((" ", line) for line in old[old_start:old_end])
        else:
            lines += (("-", line) for line in old[old_start:old_end])
            lines += (("+", line) for line in new[new_start:new_end])
    return tuple(lines)


def _read_patch(text: str, room: Room) -> Diff:
    shown, left_out = room.take(text)
    lines: list[tuple[Sign, str]] = []
    for line in _split(shown):
        match line[:1]:
            case "+" | "-" as sign:
                lines.append(("+" if sign == "+" else "-", line[1:]))
            case _:
                lines.append((" ", line))
    return Diff(lines=tuple(lines), left_out=left_out)


def _split(text: str) -> list[str]:
    """Return the lines of a text; a line break at its end makes no empty last line."""
    return text.removesuffix("\n").split("\n") if text else []
