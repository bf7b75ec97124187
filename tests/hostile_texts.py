"""Texts that take a regular expression as long as possible, derived from the expression itself.

Time that is not in proportion to the text comes from a repetition that begins at many places, or can end at
many. So each text repeats what a part of the expression accepts, behind what leads to that part.
"""

import math
import re
from collections.abc import Iterator
from itertools import combinations
from re import _constants as codes, _parser as parser
from typing import Any

_POOL = "a0 A_-.,:;/\\\"'<>{}[]()=+*&?#@%$!~^|`\n\t\r\0\x7f\xe9"
_CATEGORIES = {
    codes.CATEGORY_DIGIT: re.compile(r"\d"),
    codes.CATEGORY_NOT_DIGIT: re.compile(r"\D"),
    codes.CATEGORY_SPACE: re.compile(r"\s"),
    codes.CATEGORY_NOT_SPACE: re.compile(r"\S"),
    codes.CATEGORY_WORD: re.compile(r"\w"),
    codes.CATEGORY_NOT_WORD: re.compile(r"\W"),
}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_MANY = 100  # what is repeated less often takes little time
_MOST_CHARACTERS = 10
_MOST_IN_PAIRS = 4


def make_hostile_texts(pattern: re.Pattern[Any], length: int) -> Iterator[Any]:
    """Yield texts of about ``length`` characters, in the type that the pattern takes."""
    is_bytes = isinstance(pattern.pattern, bytes)
    source = pattern.pattern.decode("latin-1") if is_bytes else pattern.pattern
    parts = _Parts()
    parts.read(parser.parse(source, pattern.flags & re.VERBOSE))
    for lead, unit, end in _combine(parts):
        # Fewer places to begin at, where what is repeated is longer, want a longer text.
        text = lead + unit * int(length / math.sqrt(len(unit))) + end
        yield text.encode("latin-1", "replace") if is_bytes else text


def _combine(parts: "_Parts") -> Iterator[tuple[str, str, str]]:
    """Yield the beginning, what is repeated and the end of each text."""
    characters = list(dict.fromkeys(parts.characters))[:_MOST_CHARACTERS]
    pairs = [a + b for a, b in combinations(characters[:_MOST_IN_PAIRS], 2)]
    beginnings = [text for lead, unit in parts.repeated for text in (lead, unit, lead + unit)]
    ends = list(dict.fromkeys(["", "\0", *parts.refused]))[:3]
    for unit in dict.fromkeys([*characters, *pairs, *parts.branches, *beginnings, parts.whole]):
        yield from (("", unit, end) for end in ends if unit)
    for lead, unit in dict.fromkeys(parts.repeated):
        yield from ((lead, unit, end) for end in ends if lead and unit)


class _Parts:
    """The parts of an expression: ``characters`` that its classes accept and such as they have ``refused``;
    the shortest that it accepts before each repetition and within it (``repeated``), in each of its
    ``branches`` and in all (``whole``)."""

    def __init__(self) -> None:
        self.characters: list[str] = []
        self.refused: list[str] = []
        self.branches: list[str] = []
        self.repeated: list[tuple[str, str]] = []
        self.whole = ""

    def read(self, nodes: Any) -> None:
        """Note the parts of a whole expression."""
        self.whole = self._walk(nodes, "")

    def _walk(self, nodes: Any, lead: str) -> str:
        """Note the parts of a sequence behind ``lead``. Return the shortest text that it accepts."""
        text = ""
        for code, value in nodes:
            text += self._walk_one(code, value, lead + text)
        return text

    def _walk_one(self, code: Any, value: Any, lead: str) -> str:
        if code in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            return self._note_class(code, value)
        if code in _REPEATS:
            least, most, inner = value
            characters, branches = len(self.characters), len(self.branches)
            body = self._walk(inner, lead)
            if most >= _MANY:
                within = [*self.characters[characters:], *self.branches[branches:]]
                self.repeated += [(lead, unit) for unit in (body, *within)]
            return body * int(least)
        if code is codes.BRANCH:
            texts = [self._walk(branch, lead) for branch in value[1]]
            self.branches += texts
            return min(texts, key=len)
        if code is codes.SUBPATTERN:
            return self._walk(value[-1], lead)
        if code is codes.ATOMIC_GROUP:
            return self._walk(value, lead)
        if code in (codes.ASSERT, codes.ASSERT_NOT):
            accepted = self._walk(value[1], lead)
            if code is codes.ASSERT and value[0] < 0 and not lead.endswith(accepted):
                return accepted
        return ""

    def _note_class(self, code: Any, value: Any) -> str:
        members = [(code, value)] if code is not codes.IN else value
        ends = [end for kind, inner in members for end in _list_ends(kind, inner)]
        ends = ends[:_MOST_CHARACTERS]
        accepted: list[str] = [each for each in _POOL if _accepts(members, each)][:2]
        accepted += [end for end in ends if _accepts(members, end)]
        self.characters += accepted
        self.refused += [end for end in ends if end not in accepted]
        return accepted[0]


def _list_ends(kind: Any, inner: Any) -> list[str]:
    """Return the characters that a member of a class names."""
    if kind in (codes.LITERAL, codes.NOT_LITERAL):
        return [chr(inner)]
    return [chr(end) for end in inner] if kind is codes.RANGE else []


def _accepts(members: Any, character: str) -> bool:
    """Return whether a class of these members accepts a character."""
    is_negated = members[0][0] is codes.NEGATE
    return is_negated != any(_is_member(kind, inner, character) for kind, inner in members)


def _is_member(kind: Any, inner: Any, character: str) -> bool:
    if kind is codes.LITERAL:
        return bool(ord(character) == inner)
    if kind is codes.NOT_LITERAL:
        return bool(ord(character) != inner)
    if kind is codes.RANGE:
        return bool(inner[0] <= ord(character) <= inner[1])
    if kind is codes.CATEGORY:
        return _CATEGORIES[inner].fullmatch(character) is not None
    return kind is codes.ANY
