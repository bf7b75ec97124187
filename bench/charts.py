"""Bars with a target, drawn as SVG, for ``docs/performance.md``.

The background is white, since a picture cannot know the background of its document."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.figures import format_number

WIDTH, LABEL_WIDTH, VALUE_WIDTH, ROW_HEIGHT, BAR_HEIGHT, TOP = 860, 430, 90, 26, 14, 30
OURS, OTHERS, TARGET = "#0a7d5a", "#8a8f98", "#c2410c"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar for a named value. ``target`` is marked on it."""

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    is_ours: bool = False


def draw_bars(title: str, bars: Sequence[Bar]) -> str:
    """Return an SVG document with a bar for each value, all on one scale that begins at 0."""
    most = max(max(bar.value, bar.target or 0.0) for bar in bars) or 1.0
    scale = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / most
    height = TOP + len(bars) * ROW_HEIGHT + 8
    rows = [_draw_bar(bar, TOP + at * ROW_HEIGHT, scale) for at, bar in enumerate(bars)]
    summary = "; ".join(f"{bar.name}: {format_number(bar.value, bar.unit)}" for bar in bars)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
            f' height="{height}" role="img" font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{escape(title)}. {escape(summary)}</title>",
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="8" y="19" font-weight="600" fill="#1f2328">{escape(title)}</text>',
            *rows,
            "</svg>",
            "",
        ]
    )


def _draw_bar(bar: Bar, top: float, scale: float) -> str:
    middle, length = top + ROW_HEIGHT / 2, max(bar.value * scale, 1.0)
    end = LABEL_WIDTH + max(length, (bar.target or 0.0) * scale)
    colour = OURS if bar.is_ours else OTHERS
    parts = [
        f'<text x="{LABEL_WIDTH - 8}" y="{middle + 4:.1f}" text-anchor="end" fill="#1f2328">'
        f"{escape(bar.name)}</text>",
        f'<rect x="{LABEL_WIDTH}" y="{middle - BAR_HEIGHT / 2:.1f}" width="{length:.1f}"'
        f' height="{BAR_HEIGHT}" fill="{colour}"/>',
        f'<text x="{end + 6:.1f}" y="{middle + 4:.1f}" fill="#1f2328">'
        f"{format_number(bar.value, bar.unit)}</text>",
    ]
    if bar.target is not None:
        at = LABEL_WIDTH + bar.target * scale
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{middle - 10:.1f}" y2="{middle + 10:.1f}"'
            f' stroke="{TARGET}" stroke-width="2"/>'
        )
    return "\n".join(parts)
