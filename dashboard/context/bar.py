"""The bar of a call's context: a stretch for each category, as wide as its share of the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

from conversations.context import Row
from conversations.xray import Category

WIDTH = 1000.0
# Categories of a colour of their own, by name of the class. All others share one.
COLOURS: dict[Category, str] = {
    "tool": "tools",
    "system": "system",
    "memory": "memory",
    "reminder": "memory",
    "user_text": "user",
    "assistant_text": "assistant",
    "tool_call": "calls",
    "tool_result": "results",
    "thinking": "thinking",
    "image": "media",
    "document": "media",
}
REST = "rest"


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the bar, in units of the drawing."""

    row: Row
    colour: str
    x: float
    width: float


def make_bar(rows: Sequence[Row]) -> list[Piece]:
    """Return the stretches in the order of the rows, by tokens, or by bytes where there are none."""
    sizes = [row.tokens for row in rows]
    if not sum(sizes):
        sizes = [row.size for row in rows]
    total = sum(sizes)
    pieces: list[Piece] = []
    done = 0
    for row, size in zip(rows, sizes, strict=True):
        if size:
            x = done / total * WIDTH
            done += size
            width = done / total * WIDTH - x
            pieces.append(Piece(row, find_colour(row.category), round(x, 2), round(width, 2)))
    return pieces


def find_colour(category: Category) -> str:
    """Return the class of a category's colour."""
    return COLOURS.get(category, REST)
