"""The bars of a small chart of cost per day, which the template draws.

The Content-Security-Policy forbids inline styles, so the drawing uses SVG attributes alone.
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
    """The bar of one day, in units of the drawing; ``y`` is its top, counted from above."""

    day: Day
    x: float
    y: float
    height: float


def make_bars(days: Sequence[Day]) -> Sequence[Bar]:
    """Return a bar for each day, or nothing where no day has a cost."""
    most = max((day.totals.cost_cents for day in days), default=0.0)
    if most <= 0:
        return ()
    return [_bar(number, day, most) for number, day in enumerate(days)]


def _bar(number: int, day: Day, most: float) -> Bar:
    cents = day.totals.cost_cents
    height = round(max(cents / most * HEIGHT, _SMALLEST), 1) if cents > 0 else 0.0
    return Bar(day, number * STEP + (STEP - WIDTH) / 2, round(HEIGHT - height, 1), height)
