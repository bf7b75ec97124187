"""Excerpts: how much of a text a page displays, within a bound for the whole page."""

import json
from dataclasses import dataclass
from typing import NamedTuple

from runtime.safe_text import reveal


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
