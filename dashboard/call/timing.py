"""The times of a call as parts of one bar: the proxy, waiting for the first byte, the stream.

The Content-Security-Policy forbids inline styles, so the drawing uses SVG attributes alone. The words
beside it give the same times.
"""

from dataclasses import dataclass
from typing import Literal

from dashboard.drawing import per_cent
from metering.entry import UsageLogEntry
from metering.formats import format_duration

_LEAST = 0.004  # of the width: whatever there is is seen

type Kind = Literal["proxy", "wait", "stream"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One time of a call as a part of the bar. ``x`` and ``width`` are in per cent of the drawing."""

    kind: Kind
    words: str
    x: str
    width: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The bar of a call's times, from the arrival of the request to the last byte of the response."""

    parts: tuple[Part, ...]
    total: str

    @property
    def words(self) -> str:
        """Return the times as text, for people who cannot see the drawing."""
        return ", ".join(part.words for part in self.parts)


def draw_timing(entry: UsageLogEntry) -> Timing | None:
    """Return the bar of a call's times, None if its duration is not known."""
    duration_ms, first_ms = entry.duration_ms, entry.ttfb_ms
    if duration_ms is None:
        return None
    overhead_ms = entry.proxy_overhead_ms
    total_ms = max(duration_ms, first_ms or 0, overhead_ms or 0, 0.001)
    found: list[tuple[Kind, str, float, float]] = []
    if overhead_ms is not None:
        found.append(("proxy", f"proxy {format_duration(overhead_ms)}", 0, overhead_ms))
    if first_ms is None:
        words = f"waiting {format_duration(duration_ms)}, no byte of a response"
        found.append(("wait", words, overhead_ms or 0, duration_ms))
    else:
        words = f"waiting for the first byte {format_duration(first_ms)}"
        found.append(("wait", words, overhead_ms or 0, first_ms))
        rest_ms = max(duration_ms - first_ms, 0)
        words = f"{'streaming' if entry.streamed else 'rest of the response'} {format_duration(rest_ms)}"
        if entry.output_tokens_per_s is not None:
            words += f", {entry.output_tokens_per_s:,.1f} tokens per second"
        found.append(("stream", words, first_ms, rest_ms))
    return Timing(
        parts=tuple(
            _place(kind, words, start_ms / total_ms, time_ms / total_ms)
            for kind, words, start_ms, time_ms in found
        ),
        total=format_duration(duration_ms),
    )


def _place(kind: Kind, words: str, start: float, share: float) -> Part:
    width = min(max(share, _LEAST), 1.0)
    left = min(start, 1 - width)
    return Part(kind=kind, words=words, x=per_cent(left), width=per_cent(min(width, 1 - left)))
