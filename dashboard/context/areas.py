"""The areas of a conversation's growth: tokens of each category by turn, one above the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from conversations.timeline import Turn
from conversations.xray import Category
from dashboard.context.bar import COLOURS, REST

WIDTH, HEIGHT = 1000.0, 240.0
MAX_POINTS = 150


@dataclass(frozen=True, slots=True)
class Area:
    """The area of a colour, as the path of a drawing, with the categories that share it."""

    colour: str
    categories: Sequence[Category]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """All areas. ``every`` is how many turns a step is; ``most`` the tokens at the top."""

    areas: Sequence[Area]
    every: int
    most: int


def sample(turns: Sequence[Turn], most: int) -> tuple[list[Turn], int]:
    """Return every nth turn, so that there are at most so many, and n. The last one is always there."""
    every = -(-len(turns) // most)
    return [*turns[::-1][::every]][::-1], every


def draw(turns: Sequence[Turn]) -> Drawing:
    """Return the areas of these turns, from below in the order of the colours."""
    points, every = sample(turns, MAX_POINTS)
    highest = max((turn.call.tokens.total for turn in turns), default=0)
    colours = [*dict.fromkeys(COLOURS.values()), REST]
    below = [0.0] * len(points)
    areas: list[Area] = []
    for colour in colours:
        here = [
            category
            for category in dict.fromkeys(name for turn in points for name in turn.tokens)
            if COLOURS.get(category, REST) == colour
        ]
        sizes = [sum(turn.tokens.get(name, 0.0) for name in here) for turn in points]
        if not any(sizes):
            continue
        above = [low + size for low, size in zip(below, sizes, strict=True)]
        areas.append(Area(colour, here, _make_path(below, above, highest)))
        below = above
    return Drawing(areas=areas, every=every, most=highest)


def _make_path(below: Sequence[float], above: Sequence[float], highest: int) -> str:
    """Return a path along the top and back along the bottom. A single turn is as wide as the drawing."""
    if len(above) == 1:
        below, above = [below[0]] * 2, [above[0]] * 2
    step = WIDTH / (len(above) - 1)

    def place(number: int, tokens: float) -> str:
        return f"{number * step:.1f},{HEIGHT - tokens / highest * HEIGHT:.1f}"

    top = [place(number, tokens) for number, tokens in enumerate(above)]
    bottom = [place(number, tokens) for number, tokens in enumerate(below)]
    return f"M{' '.join(top)} {' '.join(reversed(bottom))}Z"
