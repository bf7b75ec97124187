"""A plot of time series as SVG: panels below each other, a line for each series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, GAP = 900, 180, 70, 190, 50
COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#7f7f7f")


@dataclass(frozen=True, slots=True)
class Panel:
    """Series over the same times, from zero up."""

    title: str
    series: Mapping[str, Sequence[float]]


def draw(title: str, minutes: Sequence[float], panels: Sequence[Panel]) -> str:
    """Return the SVG. ``minutes`` are the times of all series."""
    height = GAP + len(panels) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(LEFT, 24, title, size=15),
    ]
    for place, panel in enumerate(panels):
        parts += _draw_panel(panel, minutes, GAP + place * (HEIGHT + GAP))
    return "\n".join([*parts, "</svg>\n"])


def _draw_panel(panel: Panel, minutes: Sequence[float], top: int) -> list[str]:
    most = max((value for values in panel.series.values() for value in values), default=0) or 1
    right, bottom, last = WIDTH - RIGHT, top + HEIGHT, minutes[-1] or 1
    parts = [_text(LEFT, top - 6, panel.title)]
    for fraction in (0, 0.5, 1):
        y = bottom - fraction * HEIGHT
        parts.append(f'<path d="M{LEFT} {y}H{right}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 6, y + 4, f"{fraction * most:.4g}", anchor="end"))
        x = LEFT + fraction * (right - LEFT)
        parts.append(_text(x, bottom + 16, f"{fraction * last:.3g} min", anchor="middle"))
    for (name, values), color, row in zip(
        panel.series.items(), COLORS * 3, range(99), strict=False
    ):
        points = " ".join(
            f"{LEFT + minute / last * (right - LEFT):.1f},{bottom - value / most * HEIGHT:.1f}"
            for minute, value in zip(minutes, values, strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}"/>')
        parts.append(_text(right + 10, top + 12 + 15 * row, f"{name} {values[-1]:.4g}", fill=color))
    return parts


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", fill: str = "black", size: int = 12
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
