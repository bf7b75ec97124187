"""Views of a content block for a page: its head, and pieces that each have a form.

Texts have their control characters made visible already (``runtime.safe_text``) and still have to be
escaped for HTML, unless they are ``Markup``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from markupsafe import Markup

from runtime.safe_text import reveal
from wire import block as wire

MAX_LABEL_CHARS = 200
LONG_CHARS, LONG_LINES = 1_500, 20

type Kind = Literal["text", "thinking", "call", "result", "media", "other"]
type Sign = Literal["+", "-", " "]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text of a block. ``markup`` is the text as rendered HTML, None to show ``text`` itself. ``style``
    is the CSS class. ``left_out`` counts the characters that were cut."""

    form: ClassVar = "text"
    style: Literal["prose", "plain", "code", "command"]
    text: str
    markup: Markup | None = None
    label: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Names with short values, such as the fields of a small object. ``left_out`` counts the items that
    are not shown."""

    form: ClassVar = "facts"
    items: tuple[tuple[str, str], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Lines of a text that was changed: added, removed, or the same."""

    form: ClassVar = "diff"
    lines: tuple[tuple[Sign, str], ...]
    label: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """A to-do list: for each item its state, its text, and its other fields as text."""

    form: ClassVar = "tasks"
    items: tuple[tuple[str, str, str], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source that was found by a search, or cited. ``address`` is an absolute URL, or empty."""

    title: str
    address: str
    notes: tuple[str, ...]
    quote: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """A list of sources. ``left_out`` counts the sources that are not shown."""

    form: ClassVar = "sources"
    items: tuple[Source, ...]
    label: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image at an address of our own. ``words`` is its alternative text."""

    form: ClassVar = "picture"
    address: str
    words: str
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file at an address of our own, to download. ``words`` is the text of the link."""

    form: ClassVar = "file"
    address: str
    words: str
    left_out: int = 0


type Piece = Text | Facts | Diff | Tasks | Sources | Picture | File


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """The view of one content block. ``label`` names the type of block, ``name`` the tool, file or model.
    ``place`` is the position in its body (see ``call/addresses.py``), ``source`` the JSON value there.
    ``parts`` are the nested blocks. ``id`` is the same for a tool call and its result; ``join_results``
    puts the result of a call into ``result``."""

    kind: Kind
    label: str = ""
    name: str = ""
    notes: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    parts: tuple["Block", ...] = ()
    is_error: bool = False
    place: str = ""
    source: object = None
    id: str = ""
    result: "Block | None" = None

    @property
    def text(self) -> str:
        """Return the texts of the block's own pieces, joined by line breaks."""
        return "\n".join(piece.text for piece in self.pieces if isinstance(piece, Text))

    @property
    def left_out(self) -> int:
        """Return the number of characters and items of its pieces that are not shown."""
        return sum(piece.left_out for piece in self.pieces)

    @property
    def length(self) -> int:
        """Return the number of characters, with nested blocks and those left out."""
        own = sum(_count_chars(piece) + piece.left_out for piece in self.pieces)
        return own + sum(part.length for part in self.parts)

    @property
    def is_long(self) -> bool:
        """Return whether the block is long enough to be shown folded."""
        return self.length > LONG_CHARS or self._count_lines() > LONG_LINES

    def _count_lines(self) -> int:
        own = sum(_count_lines(piece) for piece in self.pieces)
        return own + sum(part._count_lines() for part in self.parts)


# Returns the blocks in the content of another one.
type ReadParts = Callable[[object], tuple[Block, ...]]


def short(value: object) -> str:
    """Return a name or identifier on one line, cut to ``MAX_LABEL_CHARS``; "" if it is not a text."""
    text = value if isinstance(value, str) else ""
    cut = text[:MAX_LABEL_CHARS]
    return reveal(cut.replace("\n", " ")) + ("…" if len(cut) < len(text) else "")


def cache_note(item: object) -> tuple[str, ...]:
    """Return a note if the block has a cache breakpoint, otherwise an empty tuple."""
    ttl = wire.Block(item).stated_ttl
    if ttl is None:
        return ()
    return (f"cache breakpoint, {short(ttl)}",) if ttl else ("cache breakpoint",)


def _count_chars(piece: Piece) -> int:
    match piece:
        case Text():
            return len(piece.text)
        case Diff():
            return sum(len(line) for _, line in piece.lines)
        case Facts():
            return sum(len(value) for _, value in piece.items)
        case Tasks():
            return sum(len(words) for _, words, _ in piece.items)
        case Sources():
            return sum(len(each.title) + len(each.quote) for each in piece.items)
        case _:
            return 0


def _count_lines(piece: Piece) -> int:
    match piece:
        case Text():
            return piece.text.count("\n") + 1
        case Diff() as diff:
            return len(diff.lines)
        case Facts() | Tasks() | Sources():
            return len(piece.items)
        case _:
            return 1
