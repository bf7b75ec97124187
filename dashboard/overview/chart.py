"""The drawing of a chart of stacked bars, in units of its view box. The template writes it as SVG."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 560.0, 220.0  # of the bars
LEFT, TOP, BOTTOM = 100.0, 14.0, 30.0  # of the labels around them, which are larger on a phone
RIGHT = LEFT + WIDTH
VIEW = f"0 0 {RIGHT:g} {TOP + HEIGHT + BOTTOM:g}"
_FILL = 0.78  # of the room of a bar
_SMALLEST = 1.5  # whatever there is is seen
_MAX_LABELS = 7
_TICKS = 4
_MULTIPLES = (1, 2, 2.5, 5, 10)  # round numbers that people count in


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar, the number of its series in ``kind``."""

    kind: int
    value: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one step. ``left`` and ``room`` are those of the whole place it may take."""

    place: int
    left: float
    room: float
    x: float
    width: float
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Label:
    """A label of an axis, with its place on it."""

    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Chart:
    """The bars and the labels of both axes."""

    bars: Sequence[Bar]
    values: Sequence[Label]
    steps: Sequence[Label]


def make_chart(
    stacks: Sequence[Sequence[float]],
    step_names: Sequence[str],
    format_value: Callable[[float], str],
    *,
    unit: float = 0.0,
) -> Chart:
    """Return the chart of stacks of values, the first of which is at the bottom of each bar."""
    ticks = make_ticks(max(map(sum, stacks), default=0.0), unit=unit)
    room = WIDTH / max(len(stacks), 1)
    bars = []
    for place, values in enumerate(stacks):
        left = LEFT + place * room
        x, width = left + room * (1 - _FILL) / 2, room * _FILL
        parts = _stack(values, HEIGHT / ticks[-1])
        bars.append(Bar(place, _round(left), _round(room), _round(x), _round(width), parts))
    return Chart(
        bars=bars,
        values=[
            Label(format_value(tick), _round(TOP + HEIGHT * (1 - tick / ticks[-1])))
            for tick in ticks
        ],
        steps=_label_steps(step_names, room),
    )


def _stack(values: Sequence[float], scale: float) -> Sequence[Part]:
    parts = []
    bottom = TOP + HEIGHT
    for kind, value in enumerate(values):
        if value <= 0:
            continue
        height = max(value * scale, _SMALLEST)
        bottom -= height
        parts.append(Part(kind, value, _round(max(bottom, 0)), _round(height)))
    return parts


def _label_steps(names: Sequence[str], room: float) -> Sequence[Label]:
    every = -(-len(names) // _MAX_LABELS) or 1
    return [
        Label(name, _round(LEFT + (place + 0.5) * room))
        for place, name in enumerate(names)
        if place % every == 0
    ]


def _round(value: float) -> float:
    return round(value, 2)


def make_ticks(most: float, *, unit: float = 0.0) -> Sequence[float]:
    """Return evenly spaced values from 0 to one that is not below ``most``, all multiples of ``unit``."""
    if most <= 0:
        return (0.0, 1.0)
    rough = most / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in _MULTIPLES if power * each >= rough * (1 - 1e-9))
    if unit:
        step = unit * max(1, math.ceil(step / unit - 1e-9))
    count = math.ceil(most / step - 1e-9)
    return [round(step * number, 12) for number in range(count + 1)]
