"""The times of a call as bars, one below the other: the proxy, the first byte, the stream.

The Content-Security-Policy forbids inline styles, so the drawing uses SVG attributes alone. The same is
said in words beside it.
"""

from dataclasses import dataclass
from typing import Literal

from metering.entry import UsageLogEntry
from metering.formats import format_duration

WIDTH, ROW, BAR = 600, 26, 16
_MIN_BAR = 1.5

type Kind = Literal["proxy", "wait", "stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One time of a call. ``left`` and ``width`` are in units of the drawing, ``top`` that of its row."""

    kind: Kind
    label: str
    words: str
    left: float
    width: float
    top: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The drawing, from the arrival of the request to the last byte of the response."""

    bars: tuple[Bar, ...]
    total: str
    height: int


def draw_timing(entry: UsageLogEntry) -> Timing | None:
    """Return the times of a call, None where its duration is not known."""
    duration_ms, first_ms = entry.duration_ms, entry.ttfb_ms
    if duration_ms is None:
        return None
    overhead_ms = entry.proxy_overhead_ms
    total_ms = max(duration_ms, first_ms or 0, overhead_ms or 0, 0.001)
    found: list[tuple[Kind, str, str, float, float]] = []
    if overhead_ms is not None:
        share = f"{overhead_ms / total_ms:.1%} of the call"
        words = f"{format_duration(overhead_ms)}, {share}"
        found.append(("proxy", "Proxy overhead", words, 0, overhead_ms))
    if first_ms is None:
        words = f"{format_duration(duration_ms)}, no byte of a response"
        found.append(("wait", "Waiting for upstream", words, 0, duration_ms))
    else:
        found.append(("wait", "Time to first byte", format_duration(first_ms), 0, first_ms))
        rest_ms = max(duration_ms - first_ms, 0)
        words = format_duration(rest_ms)
        if entry.output_tokens_per_s is not None:
            words += f", {entry.output_tokens_per_s:,.1f} tokens per second"
        label = "Streaming" if entry.streamed else "Rest of the response"
        found.append(("stream", label, words, first_ms, rest_ms))
    return Timing(
        bars=tuple(
            _place(kind, label, words, start_ms / total_ms, time_ms / total_ms, number)
            for number, (kind, label, words, start_ms, time_ms) in enumerate(found)
        ),
        total=format_duration(duration_ms),
        height=ROW * len(found),
    )


def _place(kind: Kind, label: str, words: str, start: float, share: float, number: int) -> Bar:
    width = max(round(share * WIDTH, 1), _MIN_BAR)
    return Bar(
        kind=kind,
        label=label,
        words=words,
        left=round(min(start * WIDTH, WIDTH - width), 1),
        width=width,
        top=number * ROW + (ROW - BAR) // 2,
    )
