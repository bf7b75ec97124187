"""Text from anywhere, made fit to be looked at, and how much of it a page may hold.

Templates escape markup; what is left is what a browser would act on or hide: characters that turn the
direction of writing around, that have no width, that a terminal would obey when they are copied, or
that UTF-8 cannot write. They are shown by name, so that nothing in a trace looks like what it is not.
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
_SHOWN = {chr(code): f"⟨U+{code:04X}⟩" for code in _HIDDEN_CODES}
# One class with both would be searched range by range, which takes ten times as long.
_HIDDEN = re.compile(f"[{re.escape(''.join(each for each in _SHOWN if each < chr(0x10000)))}]")
_HIDDEN_TAGS = re.compile("[\U000e0000-\U000e007f]")


def visible(text: str) -> str:
    """With every character shown that is not to be seen otherwise. Line ends stay."""
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return _HIDDEN_TAGS.sub(_show, _HIDDEN.sub(_show, text))


def _show(found: re.Match[str]) -> str:
    return _SHOWN[found[0]]


def finalize(value: object) -> object:
    """Return what a template writes for a value: text with every character shown.

    Jinja calls it for each ``{{ … }}`` of every page, so no page can forget it. Markup comes from
    templates, which did the same, or from code that uses ``visible`` itself."""
    if type(value) is not str or (value.isascii() and value.isprintable()):
        return value
    return visible(value)


def as_typed(value: object) -> Markup:
    """Return the value escaped and otherwise unchanged, for inputs that send it back."""
    return escape(value)


class Excerpt(NamedTuple):
    """``left_out`` counts the characters that are not shown."""

    text: str
    left_out: int = 0


NOTHING_SHOWN = Excerpt("")


@dataclass(slots=True)
class Allowance:
    """So many characters may still be shown. Each part costs something for its markup too, so that a
    million empty parts are no way around it."""

    left: int
    cost_of_a_part: int = 120

    @property
    def is_used_up(self) -> bool:
        return self.left <= 0

    def take(self, text: str) -> Excerpt:
        """As much of it as may be shown."""
        room = max(self.left, 0)
        shown = visible(text[:room])
        left_out = max(len(text) - room, 0)
        if len(shown) > room:  # what is shown by name takes more room
            left_out += len(shown) - room
            shown = shown[:room]
        self.left -= len(shown) + self.cost_of_a_part
        return Excerpt(shown, left_out)

    def take_json(self, value: object) -> Excerpt:
        """The value, pretty. It is written only as far as it is shown: indenting can make a deep value
        a thousand times larger. How much is left out is then not known, and told as 1."""
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
