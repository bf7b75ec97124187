"""The texts in the pieces of a request body, each with who said it.

A piece alone cannot be read: it may begin within a string, and it does not tell whose message it is part
of. So the pieces of a body are walked in order, and the place in the document is carried from one to the
next. A body is not parsed for that: pieces that are known are skipped, since walking needs only the
place in which the last of them ended.

To remove a text from the index takes exactly the text that was indexed. Hence ``Step.recipe``: with it a
piece alone gives the same texts again. It has the place where the piece begins and, because a message may
name its role only after its content, whose texts those turned out to be that the piece ends in.

A body that is no valid JSON is walked as well as it goes. All that is certain then is that the same
piece with the same recipe has the same texts.
"""

import re
from typing import Literal, NamedTuple, Self

from store.traces.search.text import clean
from wire.json_reading import decode_string
from wire.json_weight import is_light

type Role = Literal["tool_result", "user", "assistant", "system", "tool"]
type Texts = list[tuple[Role, str]]

MAX_DEPTH = 64  # what is nested deeper is not searched
MAX_VALUES = 50_000  # in a piece; one with more is not searched
MAX_PIECE_CHARS = 400_000
# Names of which the values are no text, wherever a document has them. What tools are called with may
# have any names, so there they hold for nothing.
SKIPPED = frozenset(
    {
        "$schema",
        "cache_control",
        "caller",
        "citations",
        "container",
        "encrypted_content",
        "encrypted_index",
        "file_id",
        "format",
        "id",
        "media_type",
        "signature",
        "tool_use_id",
        "type",
    }
)
_TOKEN = re.compile(rb'"((?:[^"\\]++|\\.)*+)("?)|([{}\[\],])', re.DOTALL)
_REST_OF_STRING = re.compile(rb'((?:[^"\\]++|\\.)*+)("?)', re.DOTALL)
_MESSAGE, _BLOCK = (
    "{[{",
    "{[{[{",
)  # the objects around a place in a message, and in one of its blocks
_SECTIONS = {"system": "s", "tools": "t", "messages": "m"}
_NAMES = SKIPPED | {"content", "input", "role"}  # those that decide about their values
_KNOWN_NAMES = {name.encode(): name for name in _NAMES | _SECTIONS.keys()}
_MAX_NAME_BYTES = 40


class _Owner:
    """A message or a block. Its role or type may become known after its texts."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class _Said(NamedTuple):
    section: str
    message: _Owner
    block: _Owner
    text: str


class Place:
    """A place in a request body. ``freeze`` and ``thaw`` make text of it and read that again.

    ``tokens`` counts what was gone over. ``_string`` is what kind of string the place is in: "t" text,
    "n" name, "x" one that is skipped."""

    __slots__ = (
        "_block",
        "_deeper",
        "_free",
        "_message",
        "_name",
        "_section",
        "_skip",
        "_stack",
        "_string",
        "_wants_name",
        "tokens",
    )

    def __init__(self) -> None:
        self.tokens = 0
        self._stack = ""  # the objects and lists around
        self._deeper = 0  # how many more of them there are
        self._section = ""
        self._message, self._block = _Owner(), _Owner()
        self._skip = 0  # how deep the value is that is skipped; 0: none
        self._free = 0  # the same for what a tool is called with
        self._wants_name = False
        self._name = ""
        self._string = ""

    def freeze(self) -> str:
        """Return the place as text that ``thaw`` reads. Names of roles and types may be parts of names."""
        return f"{self._shape()}|{self._message.name}|{self._block.name}"

    @classmethod
    def thaw(cls, frozen: str) -> Self:
        """Return the place that a text of ``freeze`` stands for."""
        place = cls()
        stack, deeper, section, skip, free, flags, name, message, block = frozen.split("|")
        place._stack, place._section, place._name = stack, section, name
        place._deeper, place._skip, place._free = int(deeper or 0), int(skip or 0), int(free or 0)
        place._wants_name = "k" in flags
        place._string = flags.replace("k", "")
        place._message, place._block = _Owner(message), _Owner(block)
        return place

    def step(self, piece: bytes) -> "Step":
        """Go over one piece, and return what it has."""
        shape, message, block = self._shape(), self._message, self._block
        said: list[_Said] = []
        if is_light(piece, MAX_VALUES):
            self._walk(piece, said)
        return Step(shape, (message, block), (self._message, self._block), said)

    def _shape(self) -> str:
        flags = f"{'k' if self._wants_name else ''}{self._string}"
        numbers = f"{self._skip or ''}|{self._free or ''}"
        return f"{self._stack}|{self._deeper or ''}|{self._section}|{numbers}|{flags}|{self._name}"

    def _walk(self, piece: bytes, said: list[_Said]) -> None:
        start = 0
        if self._string:
            rest = _REST_OF_STRING.match(piece)
            if rest is None:  # it matches whatever there is
                return
            self._read_string(rest[1], said)
            if not rest[2]:
                return
            self._end_string(rest[1])
            start = rest.end()
        tokens = _TOKEN.findall(piece, start)
        self.tokens += len(tokens)
        for string, closing, mark in tokens:
            if not mark:
                # `in` takes nine times as long for bytes as `find` does.
                if self._wants_name and closing and string.find(b"\\") < 0:  # nearly every name
                    self._take_name(_KNOWN_NAMES.get(string, ""))
                else:
                    self._take_string(string, said, is_closed=bool(closing))
            elif mark == b",":
                self._wants_name = self._stack.endswith("{")
            elif mark in b"{[":
                self._open(mark.decode())
            else:
                self._close()

    def _take_string(self, string: bytes, said: list[_Said], *, is_closed: bool) -> None:
        self._begin_string(string)
        self._read_string(string, said)
        if is_closed:
            self._end_string(string)

    def _begin_string(self, string: bytes) -> None:
        depth = len(self._stack)
        if self._wants_name:
            self._string = "n"
        elif self._deeper or self._skip:
            self._string = "x"
        elif self._stack == _MESSAGE and self._section == "m" and self._name == "role":
            self._message.name = (
                decode_string(string)[:_MAX_NAME_BYTES].replace("|", "").replace(">", "")
            )
            self._string = "x"
        elif self._stack == _BLOCK and self._section == "m" and self._name == "type":
            self._block.name = (
                decode_string(string)[:_MAX_NAME_BYTES].replace("|", "").replace(">", "")
            )
            self._string = "x"
        else:
            self._string = "x" if self._is_skipped(depth) else "t"

    def _read_string(self, string: bytes, said: list[_Said]) -> None:
        if self._string == "t":
            text = clean(decode_string(string))
            if text:
                said.append(_Said(self._section, self._message, self._block, text))

    def _end_string(self, string: bytes) -> None:
        if self._string == "n":
            name = decode_string(string) if len(string) <= _MAX_NAME_BYTES else ""
            self._take_name(name)
        self._string = ""

    def _take_name(self, name: str) -> None:
        """Take the name of the value that follows; any that decides nothing may be empty."""
        self._name = name if name in _NAMES else ""
        self._wants_name = False
        if len(self._stack) == 1:
            self._section = _SECTIONS.get(name, "")

    def _open(self, mark: str) -> None:
        depth = len(self._stack)
        if depth == MAX_DEPTH:
            self._deeper += 1
            return
        if depth and not self._skip and self._is_skipped(depth):
            self._skip = depth
        if (
            not self._free
            and self._stack == _BLOCK
            and self._section == "m"
            and self._name == "input"
        ):
            self._free = depth
        self._stack += mark
        if mark == "{":
            self._wants_name = True
            if self._stack == _MESSAGE:
                self._message, self._block = _Owner(), _Owner()
            elif self._stack == _BLOCK:
                self._block = _Owner()
        else:
            self._wants_name = False
            self._name = ""
            if self._stack == "{[{[":
                self._block = _Owner()

    def _close(self) -> None:
        if self._deeper:
            self._deeper -= 1
            return
        self._stack = self._stack[:-1]
        self._wants_name = False
        self._name = ""
        depth = len(self._stack)
        if self._skip >= depth:
            self._skip = 0
        if self._free >= depth:
            self._free = 0

    def _is_skipped(self, depth: int) -> bool:
        """Return whether the value that begins here is no text, nor holds any."""
        if not self._section:
            return True
        if not self._stack.endswith("{") or self._free:
            return False
        if depth == 1:
            return False
        if self._section == "m" and depth == len(_MESSAGE):
            return self._name != "content"
        return self._name in SKIPPED


class Step:
    """One piece that was walked. What it gives is final when the whole body was walked."""

    __slots__ = ("_after", "_before", "_said", "_shape")

    def __init__(
        self,
        shape: str,
        before: tuple[_Owner, _Owner],
        after: tuple[_Owner, _Owner],
        said: list[_Said],
    ) -> None:
        self._shape, self._before, self._after, self._said = shape, before, after, said

    @property
    def has_text(self) -> bool:
        return bool(self._said)

    @property
    def recipe(self) -> str:
        """Return what ``read_piece`` needs to find the same texts again."""
        (before, block_before), (after, block_after) = self._before, self._after
        names = f"{before.name}|{block_before.name}>{after.name}|{block_after.name}"
        return f"{self._shape}|{names}"

    @property
    def texts(self) -> Texts:
        """Return the texts, each with who said it, in order."""
        texts: Texts = []
        left = MAX_PIECE_CHARS
        for each in self._said:
            if left <= 0:
                break
            texts.append((_find_role(each), each.text[:left]))
            left -= len(each.text)
        return texts

    def settle(self, names: str) -> None:
        """Set the names of the message and the block in which the piece ends."""
        for owner, name in zip(self._after, names.split("|"), strict=True):
            owner.name = name


def read_piece(piece: bytes, recipe: str) -> Texts:
    """Return the texts of a piece by the recipe that it got when its body was walked."""
    before, _, after = recipe.rpartition(">")
    step = Place.thaw(before).step(piece)
    step.settle(after)
    return step.texts


def _find_role(said: _Said) -> Role:
    if said.section == "s":
        return "system"
    if said.section == "t":
        return "tool"
    if said.block.name.endswith("tool_result"):
        return "tool_result"
    if said.message.name == "assistant":
        return "assistant"
    return "system" if said.message.name == "system" else "user"
