"""The strip of a session: a bar for each turn, whose height is its cost.

The parts of a bar are what was paid for, from below: cache reads, cache writes, uncached input with
searches, and output.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from metering.components import INPUT, TOKEN_CLASSES, WEB_SEARCH
from metering.token_counts import CHART_CLASSES
from store.traces.sessions.session_reader import Turn

STEP, WIDTH, HEIGHT = 10, 8, 100.0
_SMALLEST = 1.5  # whatever cost something is seen
_SEARCHES = WEB_SEARCH.name, INPUT.counted_in  # what searches cost is drawn with uncached input
# The components of the cost in each part. A part is a class of tokens, by its colour.
PARTS = {
    each.color: tuple(
        name for name, counted_in in (*TOKEN_CLASSES.items(), _SEARCHES) if counted_in == each.name
    )
    for each in CHART_CLASSES
}
PART_TITLES = {
    each.color: f"{each.title.lower()} and searches"
    if each.name == INPUT.counted_in
    else each.title.lower()
    for each in CHART_CLASSES
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
