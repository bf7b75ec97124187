"""Untrusted text made safe to display, within a bound for each page.

Templates escape markup. What is left are characters that a browser acts on or hides: those that change
the direction of text, have no width, control a terminal when they are copied, or cannot be encoded in
UTF-8. They are displayed by name, so that text in a trace cannot imitate other text.
"""

import json
import re
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup, escape

_HIDDEN_CODES = (
    *(code for code in range(0x20) if chr(code) not in "\t\n"),
    *range(0x7F, 0xA0),
    *(0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, 0x3164, 0xFFA0),
    *(0x200B, 0x200E, 0x200F, 0xFEFF),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xD800, 0xE000),  # halves of surrogate pairs
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),  # tags: text that only models see
)
_NAMES = {chr(code): f"⟨U+{code:04X}⟩" for code in _HIDDEN_CODES}
# One class with both would be searched range by range, which takes ten times as long.
_HIDDEN = re.compile(f"[{re.escape(''.join(each for each in _NAMES if each < chr(0x10000)))}]")
_HIDDEN_TAGS = re.compile("[\U000e0000-\U000e007f]")


def reveal(text: str) -> str:
    """Return the text with invisible and control characters replaced by their names. Line ends
    stay."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _HIDDEN_TAGS.sub(_name_of, _HIDDEN.sub(_name_of, text))


def _name_of(found: re.Match[str]) -> str:
    return _NAMES[found[0]]


def finalize(value: object) -> object:
    """Return what a template writes for a value: text with every character visible.

    Jinja calls it for each ``{{ … }}`` of every page, so no page can forget it. Markup comes from
    templates, which did the same, or from code that uses ``reveal`` itself."""
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return reveal(value)


def as_typed(value: object) -> Markup:
    """Return the value escaped and otherwise unchanged, for inputs that send it back."""
    return escape(value)


class Excerpt(NamedTuple):
    """The beginning of a text. ``left_out`` counts the characters after it."""

    text: str
    left_out: int = 0


EMPTY = Excerpt("")


@dataclass(slots=True)
class Allowance:
    """The number of characters that a page may still hold. Each part costs something for its markup
    too, so that a million empty parts are no way around it."""

    left: int
    cost_of_a_part: int = 120

    @property
    def is_used_up(self) -> bool:
        return self.left <= 0

    def take(self, text: str) -> Excerpt:
        """Return as much of a text as the allowance permits, and deduct it."""
        room = max(self.left, 0)
        shown = reveal(text[:room])
        left_out = max(len(text) - room, 0)
        if len(shown) > room:  # what is shown by name takes more room
            left_out += len(shown) - room
            shown = shown[:room]
        self.left -= len(shown) + self.cost_of_a_part
        return Excerpt(shown, left_out)

    def take_json(self, value: object) -> Excerpt:
        """Return a value as indented JSON, and deduct it. It is written only as far as it is
        displayed: indenting can make a deep value a thousand times larger. How much is left out
        is then not known, and counted as 1."""
        parts, length = [], 0
        try:
            for part in _PRETTY.iterencode(value):
                parts.append(part)
                length += len(part)
                if length > self.left:
                    break
        except RecursionError:
            parts.append(" …")
        text, left_out = self.take("".join(parts))
        return Excerpt(text, min(left_out, 1))


_PRETTY = json.JSONEncoder(indent=2, ensure_ascii=False, default=str)
