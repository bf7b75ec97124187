"""A small chart of cost per day: where its bars stand. The template draws them.

Our pages allow no inline styles, so it is made of SVG attributes alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.home.overview import Day

STEP = 20
WIDTH = 14
HEIGHT = 100.0
_SMALLEST = 2.0  # whatever cost something is seen


@dataclass(frozen=True, slots=True)
class Bar:
    """Where the bar of a day stands, in units of the drawing; ``y`` is its top, counted from above."""

    day: Day
    x: float
    y: float
    height: float


def make_bars(days: Sequence[Day]) -> Sequence[Bar]:
    """None where nothing cost anything."""
    most = max((day.totals.cost_cents for day in days), default=0.0)
    if most <= 0:
        return ()
    return [_bar(number, day, most) for number, day in enumerate(days)]


def _bar(number: int, day: Day, most: float) -> Bar:
    cents = day.totals.cost_cents
    height = round(max(cents / most * HEIGHT, _SMALLEST), 1) if cents > 0 else 0.0
    return Bar(day, number * STEP + (STEP - WIDTH) / 2, round(HEIGHT - height, 1), height)
