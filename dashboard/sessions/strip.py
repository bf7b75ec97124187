"""The strip of a session: a bar for each turn, whose height is its cost.

The parts of a bar are what was paid for, from below: cache reads, cache writes, uncached input and output.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from store.traces.sessions.session_reader import Turn

STEP, WIDTH, HEIGHT = 10, 8, 100.0
_SMALLEST = 1.5  # whatever cost something is seen
# The parts with the components of the cost in each, and their names for the key of the drawing.
PARTS = {
    "read": ("cache_read",),
    "write": ("cache_write_5m", "cache_write_1h"),
    "input": ("input", "web_search"),
    "output": ("output",),
}
PART_TITLES = {
    "read": "cache reads",
    "write": "cache writes",
    "input": "uncached input and searches",
    "output": "output",
}
# What the template of the drawing needs to know.
DRAWING = {"step": STEP, "width": WIDTH, "height": HEIGHT, "part_titles": PART_TITLES}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar; ``y`` is its top, counted from above."""

    kind: str
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one turn, in units of the drawing."""

    turn: Turn
    x: int
    parts: tuple[Part, ...]


def make_strip(turns: Sequence[Turn]) -> list[Bar]:
    """Return a bar for each turn; those without a cost have no parts."""
    most = max((sum(turn.cents.values()) for turn in turns), default=0.0)
    return [
        Bar(turn, place * STEP + (STEP - WIDTH) // 2, _stack(turn, most))
        for place, turn in enumerate(turns)
    ]


def _stack(turn: Turn, most: float) -> tuple[Part, ...]:
    parts: list[Part] = []
    top = HEIGHT
    for kind, components in PARTS.items():
        cents = sum(turn.cents.get(component, 0.0) for component in components)
        if cents > 0:
            height = max(cents / most * HEIGHT, _SMALLEST)
            top -= height
            parts.append(Part(kind, round(max(top, 0.0), 2), round(height, 2)))
    return tuple(parts)
