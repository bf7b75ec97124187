"""Positions of values in JSON text that is known to be valid.

A parser returns what is in a document and not where. One pass over the bytes, at the speed of a
regular expression and without recursion, notes the end of each text, object and list; all other
positions are looked up."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import orjson

_LAST_SPACE, _MAX_NAMES = ord(" "), 1_000
_SPACE = re.compile(rb"[ \t\r\n]*+")
# A text without an end is one, too, for otherwise each quote in it would be looked behind.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\]]', re.DOTALL)
_SCALAR = re.compile(rb"[^,}\] \t\r\n]++")
_QUOTE, _COMMA, _OPENING = ord('"'), ord(","), frozenset(b"{[")


class Place(NamedTuple):
    """The beginning and the end of a value, in bytes."""

    start: int
    end: int


class JsonText:
    """A document with the positions of its values. Nesting may be of any depth."""

    def __init__(self, body: bytes) -> None:
        """Find the ends of values in a valid JSON document. Raises ValueError for unbalanced brackets."""
        self.body, self._length = body, len(body)
        self._ends: dict[int, int] = {}
        self._names: dict[bytes, object] = {}  # of members, which are few different ones
        opened: list[int] = []
        for found in _TOKEN.finditer(body):
            start, end = found.span()
            first = body[start]
            if first == _QUOTE:
                self._ends[start] = end
            elif first in _OPENING:
                opened.append(start)
            elif opened:
                self._ends[opened.pop()] = end
        if opened:
            raise ValueError("this is not valid JSON")

    def find_value(self, start: int = 0) -> Place:
        """Return the place of the value that begins at or after byte ``start``."""
        start = self._skip_space(start)
        end = self._ends.get(start)
        if end is None:
            found = _SCALAR.match(self.body, start)
            if found is None:
                raise ValueError("this is not valid JSON")
            end = found.end()
        return Place(start, end)

    def list_members(self, place: Place) -> Iterator[tuple[object, Place]]:
        """Yield the names and values of an object in order; nothing for a value of another kind."""
        if not self.is_kind(place, b"{"):
            return
        here, close = self._skip_space(place.start + 1), place.end - 1
        while here < close:
            end = self._ends[here]
            value = self.find_value(self._skip_space(end) + 1)
            yield self._read_name(self.body[here:end]), value
            here = self._skip_comma(value.end)

    def list_items(self, place: Place) -> Iterator[Place]:
        """Yield the items of a list in order; nothing for a value of another kind."""
        if not self.is_kind(place, b"["):
            return
        here, close = self._skip_space(place.start + 1), place.end - 1
        while here < close:
            value = self.find_value(here)
            yield value
            here = self._skip_comma(value.end)

    def read(self, place: Place) -> object:
        """Return the parsed value at a place."""
        value: object = orjson.loads(self.body[place.start : place.end])
        return value

    def is_kind(self, place: Place, opening: bytes) -> bool:
        """Return whether a value begins with ``opening``: ``{``, ``[`` or a quote."""
        return self.body.startswith(opening, place.start)

    def _read_name(self, written: bytes) -> object:
        name = self._names.get(written)
        if name is None:
            name = orjson.loads(written)
            if len(self._names) < _MAX_NAMES:
                self._names[written] = name
        return name

    def _skip_space(self, start: int) -> int:
        if start < self._length and self.body[start] > _LAST_SPACE:  # as nearly always
            return start
        found = _SPACE.match(self.body, start)
        return start if found is None else found.end()

    def _skip_comma(self, end: int) -> int:
        """Return the position of the next value, or of the closing bracket."""
        body = self.body
        if body[end] == _COMMA and body[end + 1] > _LAST_SPACE:  # as nearly always
            return end + 1
        end = self._skip_space(end)
        return self._skip_space(end + 1) if body[end] == _COMMA else end
