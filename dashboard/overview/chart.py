"""The drawing of a chart of stacked bars, in units of its view box. The template writes it as SVG."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dashboard.drawing import make_ticks

WIDTH, HEIGHT = 560.0, 220.0  # of the bars
LEFT, TOP, BOTTOM = 100.0, 14.0, 30.0  # of the labels around them, which are larger on a phone
RIGHT = LEFT + WIDTH
VIEW = f"0 0 {RIGHT:g} {TOP + HEIGHT + BOTTOM:g}"
_FILL = 0.78  # of the room of a bar
_SMALLEST = 1.5  # whatever there is is seen
_MAX_LABELS = 7


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
