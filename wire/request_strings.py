"""The strings of a request that comes in pieces, each with the part of the request it belongs to.

A piece alone cannot be parsed: it may begin within a string, and it does not say to whose message
it belongs. So the position in the document is carried from one piece to the next, and nothing is
parsed. A position can be frozen as text; with this text alone, a piece can be walked again without
those before it. Frozen positions are stored, so their form must not change. Invalid JSON is walked
as well as possible. Then it is only certain that the same piece at the same position has the same
strings."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Self

from wire.json_reading import decode_string
from wire.json_weight import is_light

MAX_DEPTH = 64  # what is nested deeper is not found
MAX_VALUES = 50_000  # in a piece; one with more has no strings
MAX_TOKENS = 300_000  # strings and marks of a request; what comes after is not found
# Names of which the values are no text, wherever a document has them. What tools are called with may
# have any names, so there they hold for nothing.
NO_TEXT = frozenset(
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
SYSTEM, TOOLS, MESSAGES = "s", "t", "m"
_TOKEN = re.compile(rb'"((?:[^"\\]++|\\.)*+)("?)|([{}\[\],])', re.DOTALL)
_REST_OF_STRING = re.compile(rb'((?:[^"\\]++|\\.)*+)("?)', re.DOTALL)
# The objects and lists around a place in a message, in its content, and in one of its blocks.
_MESSAGE, _CONTENT, _BLOCK = "{[{", "{[{[", "{[{[{"
_BEGINNINGS = (_MESSAGE, _CONTENT, _BLOCK)
_SECTIONS = {"system": SYSTEM, "tools": TOOLS, "messages": MESSAGES}
_NAMES = NO_TEXT | {"content", "input", "role"}  # those that decide about their values
_KNOWN_NAMES = {name.encode(): name for name in _NAMES | _SECTIONS.keys()}
_MAX_NAME_BYTES = 40
_TEXT, _NAME, _OTHER = "t", "n", "x"  # kinds of strings


class Owner:
    """A message or a block. Its role or kind may become known after its strings."""

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


type Found = tuple[str, Owner, Owner, bytes]
"""A string, or the part of it in a piece, as written, after its section, message and block."""


class Position:
    """A position in a request body. ``tokens`` counts the tokens before it.

    ``message`` and ``block`` are those around it. Long roles and kinds are cut."""

    __slots__ = (
        "_deeper",
        "_free",
        "_name",
        "_section",
        "_skip",
        "_stack",
        "_string",
        "_wants_name",
        "block",
        "message",
        "tokens",
    )

    def __init__(self) -> None:
        self.tokens = 0
        self.message, self.block = Owner(), Owner()
        self._stack = ""  # the objects and lists around
        self._deeper = 0  # how many more of them there are
        self._section = ""
        self._skip = 0  # how deep the value is that is skipped; 0: none
        self._free = 0  # the same for what a tool is called with
        self._wants_name = False
        self._name = ""
        self._string = ""  # the kind of the string that it is within

    @property
    def shape(self) -> str:
        """Return the frozen form of the position without the role and kind of its message and block."""
        flags = f"{'k' if self._wants_name else ''}{self._string}"
        numbers = f"{self._skip or ''}|{self._free or ''}"
        return f"{self._stack}|{self._deeper or ''}|{self._section}|{numbers}|{flags}|{self._name}"

    def freeze(self) -> str:
        """Return the position as text for ``thaw``."""
        return f"{self.shape}|{self.message.name}|{self.block.name}"

    @classmethod
    def thaw(cls, frozen: str) -> Self:
        """Return the position that ``freeze`` wrote as text."""
        position = cls()
        stack, deeper, section, skip, free, flags, name, message, block = frozen.split("|")
        position._stack, position._section, position._name = stack, section, name
        position._deeper, position._skip, position._free = (
            int(each or 0) for each in (deeper, skip, free)
        )
        position._wants_name = "k" in flags
        position._string = flags.replace("k", "")
        position.message, position.block = Owner(message), Owner(block)
        return position

    def walk(self, piece: bytes) -> list[Found]:
        """Walk the next piece, and return its strings that are text, in order. Never raises."""
        found: list[Found] = []
        if not is_light(piece, MAX_VALUES):
            return found
        start = 0
        if self._string:
            rest = _REST_OF_STRING.match(piece)
            if rest is None:  # it matches whatever there is
                return found
            self._take_string(rest[1], found, is_closed=bool(rest[2]))
            if not rest[2]:
                return found
            start = rest.end()
        tokens = _list_tokens(piece, start)
        self.tokens += len(tokens)
        for string, closing, mark in tokens:
            if not mark:
                # `in` takes nine times as long for bytes as `find` does.
                if self._wants_name and closing and string.find(b"\\") < 0:  # nearly every name
                    self._take_name(_KNOWN_NAMES.get(string, ""))
                else:
                    self._begin_string(string)
                    self._take_string(string, found, is_closed=bool(closing))
            elif mark == b",":
                self._wants_name = self._stack.endswith("{")
            elif mark in b"{[":
                self._open(mark.decode())
            else:
                self._close()
        return found

    def _begin_string(self, string: bytes) -> None:
        """Determine the kind of a string, and note it if it is a role or the type of a block."""
        self._string = _OTHER
        if self._wants_name:
            self._string = _NAME
        elif self._deeper or self._skip:
            return
        elif self._name == "role" and self._is_in(_MESSAGE):
            self.message.name = _read_name(string)
        elif self._name == "type" and self._is_in(_BLOCK):
            self.block.name = _read_name(string)
        elif not self._is_skipped():
            self._string = _TEXT

    def _take_string(self, string: bytes, found: list[Found], *, is_closed: bool) -> None:
        if string and self._string == _TEXT:
            found.append((self._section, self.message, self.block, string))
        if is_closed:
            if self._string == _NAME:
                self._take_name(decode_string(string) if len(string) <= _MAX_NAME_BYTES else "")
            self._string = ""

    def _take_name(self, name: str) -> None:
        """Note the name of the next value, "" if it decides nothing."""
        self._name = name if name in _NAMES else ""
        self._wants_name = False
        if len(self._stack) == 1:
            self._section = _SECTIONS.get(name, "")

    def _open(self, mark: str) -> None:
        depth = len(self._stack)
        if depth == MAX_DEPTH:
            self._deeper += 1
            return
        if depth and not self._skip and self._is_skipped():
            self._skip = depth
        if self._name == "input" and not self._free and self._is_in(_BLOCK):
            self._free = depth
        self._stack += mark
        self._wants_name = mark == "{"
        if mark == "[":
            self._name = ""
        if self._stack in _BEGINNINGS:
            self.block = Owner()
            if self._stack == _MESSAGE:
                self.message = Owner()

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

    def _is_in(self, stack: str) -> bool:
        """Return whether the position is among the fields of a message, or of a block of one."""
        return self._stack == stack and self._section == MESSAGES

    def _is_skipped(self) -> bool:
        """Return whether the next value is not text and contains none."""
        if not self._section:
            return True
        if not self._stack.endswith("{") or self._free:
            return False
        if len(self._stack) == 1:
            return False
        if self._section == MESSAGES and len(self._stack) == len(_MESSAGE):
            return self._name != "content"
        return self._name in NO_TEXT


def _list_tokens(piece: bytes, start: int) -> Sequence[tuple[bytes, ...]]:
    """Return the strings and marks of a piece, up to one more than the limit for a request."""
    if len(piece) <= MAX_TOKENS:
        return _TOKEN.findall(piece, start)
    found = islice(_TOKEN.finditer(piece, start), MAX_TOKENS + 1)
    return [each.groups(b"") for each in found]


def _read_name(string: bytes) -> str:
    """Return a role or a type without the separators of frozen positions."""
    return decode_string(string)[:_MAX_NAME_BYTES].replace("|", "").replace(">", "")
