"""Excerpts: the beginnings of texts that a page displays, within a limit for the whole page."""

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
    """The number of characters that a page may still hold. Each part also costs ``cost_of_a_part`` for its
    markup, so that a million empty parts do not evade the limit."""

    left: int
    cost_of_a_part: int = 120

    @property
    def is_used_up(self) -> bool:
        return self.left <= 0

    def take(self, text: str) -> Excerpt:
        """Return the beginning of a text, as much as the allowance permits, and deduct it."""
        room = max(self.left, 0)
        shown = reveal(text[:room])
        left_out = max(len(text) - room, 0)
        if len(shown) > room:  # what is shown by name takes more room
            left_out += len(shown) - room
            shown = shown[:room]
        self.left -= len(shown) + self.cost_of_a_part
        return Excerpt(shown, left_out)

    def take_json(self, value: object) -> Excerpt:
        """Return a value as indented JSON, and deduct it. Only the displayed beginning is encoded, since
        indentation can make a deeply nested value a thousand times larger. If something is left out, its
        length is unknown and ``left_out`` is 1."""
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
