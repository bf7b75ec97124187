"""Places of values in JSON text that is known to be valid.

A parser says what is in a document and not where. These walk over the bytes, one level at a time, and
skip what is not asked for at the speed of a regular expression, without recursion.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import orjson

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_LAST_SPACE = ord(" ")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_TEXT = re.compile(_STRING, re.DOTALL)
_NESTING = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_SCALAR = re.compile(rb"[^,}\] \t\r\n]++")


class Place(NamedTuple):
    """The beginning and the end of a value."""

    start: int
    end: int

    def read(self, body: bytes) -> object:
        """Return the value itself."""
        value: object = orjson.loads(body[self.start : self.end])
        return value

    def is_kind(self, body: bytes, opening: bytes) -> bool:
        """Return whether the value begins with this character: ``{``, ``[`` or a quote."""
        return body.startswith(opening, self.start)


def find_value(body: bytes, start: int = 0) -> Place:
    """Return where the value is that begins at or after this byte."""
    start = _skip_space(body, start)
    if body.startswith(b'"', start):
        return Place(start, _end_of(_TEXT.match(body, start)))
    if not body.startswith((b"{", b"["), start):
        return Place(start, _end_of(_SCALAR.match(body, start)))
    depth = 0
    for found in _NESTING.finditer(body, start):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if not depth:
                return Place(start, found.end())
    raise ValueError("this is not valid JSON")


def list_members(body: bytes, place: Place) -> Iterator[tuple[object, Place]]:
    """Yield the names and values of an object in order, nothing for a value of another kind."""
    if not place.is_kind(body, b"{"):
        return
    here = _skip_space(body, place.start + 1)
    while not body.startswith(b"}", here):
        name = find_value(body, here)
        colon = _skip_space(body, name.end)
        value = find_value(body, colon + 1)
        yield name.read(body), value
        here = _skip_separator(body, value.end)


def list_items(body: bytes, place: Place) -> Iterator[Place]:
    """Yield the items of a list in order, nothing for a value of another kind."""
    if not place.is_kind(body, b"["):
        return
    here = _skip_space(body, place.start + 1)
    while not body.startswith(b"]", here):
        value = find_value(body, here)
        yield value
        here = _skip_separator(body, value.end)


def _skip_space(body: bytes, start: int) -> int:
    if start < len(body) and body[start] > _LAST_SPACE:  # as nearly always
        return start
    return _end_of(_SPACE.match(body, start))


def _skip_separator(body: bytes, end: int) -> int:
    end = _skip_space(body, end)
    return _skip_space(body, end + 1) if body.startswith(b",", end) else end


def _end_of(found: re.Match[bytes] | None) -> int:
    if found is None:
        raise ValueError("this is not valid JSON")
    return found.end()
