"""The geometry of charts, gauges and maps: functions of numbers, whose results templates write as SVG.

Horizontal places and widths are in per cent (``7.14%``), so that a drawing is as wide as its place on
the page; vertical ones are in pixels from the top. The Content-Security-Policy forbids inline styles, so
drawings use SVG attributes alone.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

CHART_TOP, CHART_HEIGHT, CHART_FOOT = 14.0, 180.0, 22.0  # above the columns, of them, below them
_LINES = 4  # of the grid, above that of 0
_MULTIPLES = (1, 2, 2.5, 5, 10)  # round numbers that people count in
_SMALLEST = 1.1  # whatever there is is seen
_SEAM = 0.7  # between the parts of a column
_SIDE = 0.16  # of the place of a column, on its left and on its right
_MOST_LABELS = 14
_HIGH = 0.9  # the share from which on a gauge is a warning
_USUAL_SHARE = 0.97  # of the values have their whole height in a map
_ROOM_ABOVE = 1.1  # of the highest of these


def per_cent(share: float) -> str:
    """Return a share of the width (0 to 1) as an attribute: ``7.14%``."""
    return f"{100 * share:.2f}%"


# -- scales ------------------------------------------------------------------------------------------


def make_ticks(most: float, *, unit: float = 0.0) -> Sequence[float]:
    """Return evenly spaced values from 0 to at least ``most``, all of them multiples of ``unit``."""
    if most <= 0:
        return (0.0, 1.0)
    rough = most / _LINES
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in _MULTIPLES if power * each >= rough * (1 - 1e-9))
    if unit:
        step = unit * max(1, math.ceil(step / unit - 1e-9))
    count = math.ceil(most / step - 1e-9)
    return [round(step * number, 12) for number in range(count + 1)]


def find_cut(values: Sequence[float]) -> float:
    """Return the end of a map's scale: a tenth above the 97th percentile of the values.

    It is the highest value if that is less, and 1 if no value is above 0."""
    ordered = sorted(value for value in values if value > 0)
    if not ordered:
        return 1.0
    usual = ordered[math.ceil(_USUAL_SHARE * len(ordered)) - 1]
    return min(usual * _ROOM_ABOVE, ordered[-1])


# -- columns -----------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of a column. ``kind`` is the index of its value among the values of the column."""

    kind: int
    y: float
    height: float


def stack(
    values: Iterable[float],
    most: float,
    *,
    foot: float,
    height: float,
    least: float = _SMALLEST,
    seam: float = _SEAM,
) -> list[Part]:
    """Return the parts of a column with its bottom at ``foot``, ``height`` pixels high for ``most``.

    Each part is at least ``least`` pixels high, and the column is cut off at its full height. Between
    larger parts there are ``seam`` pixels."""
    ceiling, bottom = foot - height, foot
    parts = []
    for kind, value in enumerate(values):
        if value <= 0:
            continue
        top = max(bottom - max(value / most * height, least), ceiling)
        if top < bottom:
            gap = seam if bottom - top > 2 * seam else 0.0
            parts.append(Part(kind, _round(top), _round(bottom - top - gap)))
        bottom = top
    return parts


@dataclass(frozen=True, slots=True)
class Column:
    """A column and its place. ``left`` and ``room`` are the position and width of its area, which is a
    link. ``label`` is None if there is no room for one; if ``may_go``, narrow screens leave it out.
    ``expected`` is the rest that is expected, above the parts."""

    left: str
    room: str
    x: str
    width: str
    middle: str
    parts: Sequence[Part]
    label: str | None
    may_go: bool
    expected: Part | None


@dataclass(frozen=True, slots=True)
class Tick:
    """A horizontal grid line with its label."""

    text: str
    y: float
    text_y: float


@dataclass(frozen=True, slots=True)
class Chart:
    """Stacked columns in chronological order, and the grid lines, the first of which is at 0."""

    columns: Sequence[Column]
    ticks: Sequence[Tick]
    top: float = CHART_TOP
    height: float = CHART_TOP + CHART_HEIGHT + CHART_FOOT
    label_y: float = CHART_TOP + CHART_HEIGHT + 16


def make_chart(
    stacks: Sequence[Sequence[float]],
    names: Sequence[str],
    format_value: Callable[[float], str],
    *,
    unit: float = 0.0,
    expected: float | None = None,
) -> Chart:
    """Return the chart of stacks of values; the first value of each is at the bottom of its column.

    ``expected`` is the final sum of the last column, which is not over yet. ``unit`` as in
    ``make_ticks``."""
    highest = max([*map(sum, stacks), expected or 0.0])
    ticks = make_ticks(highest, unit=unit)
    foot = CHART_TOP + CHART_HEIGHT
    columns = [
        _place_column(
            place,
            len(stacks),
            stack(values, ticks[-1], foot=foot, height=CHART_HEIGHT),
            names[place],
            _rest(sum(values), expected, ticks[-1]) if place == len(stacks) - 1 else None,
        )
        for place, values in enumerate(stacks)
    ]
    heights = [round(foot - CHART_HEIGHT * tick / ticks[-1], 1) for tick in ticks]
    return Chart(
        columns,
        [Tick(format_value(tick), y, y + 4) for tick, y in zip(ticks, heights, strict=True)],
    )


def _place_column(
    place: int, count: int, parts: Sequence[Part], name: str, expected: Part | None
) -> Column:
    room = 1 / count
    every = -(-count // _MOST_LABELS)
    return Column(
        left=per_cent(place * room),
        room=per_cent(room),
        x=per_cent((place + _SIDE) * room),
        width=per_cent((1 - 2 * _SIDE) * room),
        middle=per_cent((place + 0.5) * room),
        parts=parts,
        label=name if place % every == 0 else None,
        may_go=(place // every) % 2 == 1,
        expected=expected,
    )


def _rest(value: float, expected: float | None, most: float) -> Part | None:
    """Return the part of a column that is still expected, on top of ``value``; None if nothing is."""
    if expected is None or expected <= value:
        return None
    scale = CHART_HEIGHT / most
    top = CHART_TOP + CHART_HEIGHT - expected * scale
    return Part(0, _round(top), _round((expected - value) * scale))


def _round(value: float) -> float:
    return round(value, 2)


# -- gauges and bars ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gauge:
    """The shares that are used and of the time that has passed (None without a time), as SVG attributes.
    ``per_cent`` is the number beside the gauge; it may exceed 100, while ``used`` is at most 100%."""

    used: str
    pace: str | None
    per_cent: int
    is_high: bool

    @property
    def words(self) -> str:
        """Return the gauge as text, for people who cannot see the drawing."""
        gone = f", {self.pace[:-1]} % of the time gone" if self.pace else ""
        return f"{self.per_cent} % used{gone}"


def make_gauge(used: float, pace: float | None = None) -> Gauge:
    """Return the gauge for a used share, and for the share of the time that has passed (both from 0 to 1)."""
    return Gauge(
        used=_whole_per_cent(used),
        pace=None if pace is None else _whole_per_cent(pace),
        per_cent=math.floor(100 * used + 1e-9),
        is_high=used >= _HIGH,
    )


def _whole_per_cent(share: float) -> str:
    return f"{math.floor(100 * min(max(share, 0.0), 1.0) + 1e-9)}%"


class Stretch(NamedTuple):
    """The place of a part in a bar, as SVG attributes in per cent."""

    x: str
    width: str


def lay_out(values: Iterable[float], most: float) -> list[Stretch]:
    """Return the places of values one after the other, in a bar whose whole length is ``most``."""
    ends = list(accumulate(values, initial=0.0))
    return [Stretch(per_cent(x / most), per_cent((end - x) / most)) for x, end in pairwise(ends)]


def bar_width(value: float, most: float) -> str:
    """Return the length of the bar for a value if that of ``most`` is 100%: ``39.00%``."""
    return per_cent(min(max(value / most, 0.0), 1.0)) if most > 0 else "0.00%"
