"""Figures as people read them, for the templates: money, durations, tokens, how a call ended.

What is not known is ``—`` everywhere, never 0. The exact value belongs beside it, in a title or on the
call's own page.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from jinja2 import Environment

from dashboard.call.shown_text import as_typed, finalize
from metering.token_counts import PROMPT_CLASSES, TokenCounts

UNKNOWN = "—"

type Kind = Literal["ok", "cut", "bad"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A class of the style sheet, and words."""

    kind: Kind
    label: str


_MARKS: dict[str, Mark] = {
    "complete": Mark("ok", "complete"),
    "client_disconnected": Mark("cut", "client disconnected"),
    "proxy_restarted": Mark("cut", "proxy restarted"),
    "upstream_interrupted": Mark("bad", "interrupted"),
    "upstream_error": Mark("bad", "error"),
    "upstream_unreachable": Mark("bad", "unreachable"),
    "upstream_timeout": Mark("bad", "timed out"),
}


def format_cents(cents: float | None) -> str:
    """Cents as dollars: four digits below a dollar, where a call's cost is; two from there on."""
    if cents is None:
        return UNKNOWN
    dollars = float(cents) / 100
    if dollars == 0:
        return "$0"
    if dollars < 0.0001:
        return "<$0.0001"
    return f"${dollars:.4f}" if dollars < 0.99995 else f"${dollars:,.2f}"


def format_bytes(count: int | None) -> str:
    """Powers of 1000, as disks and networks count."""
    if count is None:
        return UNKNOWN
    if count < 1000:
        return f"{count} byte{'' if count == 1 else 's'}"
    size = count / 1000
    for unit in ("KB", "MB"):
        if round(size, 1) < 1000:
            return f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def format_dollars(amount: Decimal | None) -> str:
    """Every digit, so that a bill adds up to its total."""
    if amount is None:
        return UNKNOWN
    whole, _, fraction = f"{amount:,f}".partition(".")
    return f"${whole}.{fraction.rstrip('0'):0<2}"


def format_duration(milliseconds: float | None) -> str:
    """Three digits or so: milliseconds, seconds, minutes or hours."""
    if milliseconds is None:
        return UNKNOWN
    if round(milliseconds) < 1000:
        return f"{round(milliseconds)} ms"
    seconds = milliseconds / 1000
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes:02d} min"


def format_wait(seconds: int) -> str:
    """Whole minutes, rounded up."""
    minutes = -(-seconds // 60)
    return "a minute" if minutes == 1 else f"{minutes} minutes"


def format_time(instant: str) -> str:
    """Return a stored time without its letters and milliseconds, in UTC as it is stored."""
    return f"{instant[:19].replace('T', ' ')} UTC"


def format_tokens(count: int | None) -> str:
    """All digits of small numbers, three of large ones."""
    if count is None:
        return UNKNOWN
    if count < 10_000:
        return f"{count:,}"
    for unit, letter in ((1_000, "k"), (1_000_000, "M")):
        short = count / unit
        if round(short, 1) < 1_000:
            return f"{short:.1f}{letter}" if round(short, 1) < 100 else f"{short:.0f}{letter}"
    return f"{count / 1_000_000_000:,.1f}G"


def format_count(count: int | None) -> str:
    """All digits."""
    return UNKNOWN if count is None else f"{count:,}"


def format_prompt(tokens: TokenCounts) -> str:
    """Return the size of a prompt with what it consists of, all digits."""
    parts = (
        f"{format_count(getattr(tokens, each.name))} {each.title.lower()}"
        for each in PROMPT_CLASSES
    )
    return f"{format_count(tokens.prompt)} tokens: {', '.join(parts)}"


def cache_share(tokens: TokenCounts) -> str:
    """Return how much of the prompt came from cache. 100% is all of it, and 0% none of it."""
    if not tokens.prompt:
        return UNKNOWN
    percent = 100 * (tokens.cache_read_input_tokens or 0) / tokens.prompt
    if 0 < percent < 1:
        return "<1%"
    return ">99%" if 99 < percent < 100 else f"{percent:.0f}%"


def outcome_label(outcome: str) -> str:
    """Return the words for an outcome, or what is stored where there are none."""
    mark = _MARKS.get(outcome)
    return outcome if mark is None else mark.label


def outcome_mark(outcome: str | None, status_code: int | None = None) -> Mark:
    """How a call ended; the status where it tells more than the word does."""
    mark = _MARKS.get(outcome or "", Mark("cut", outcome or "unknown"))
    if status_code is None or status_code == 200:
        return mark
    return Mark(mark.kind, f"{mark.label} {status_code}")


FILTERS = {
    "as_typed": as_typed,
    "cents": format_cents,
    "duration": format_duration,
    "tokens": format_tokens,
    "count_of": format_count,
    "prompt_of": format_prompt,
    "cache_share": cache_share,
}
GLOBALS = {
    "outcome_mark": outcome_mark,
    "token_counts": TokenCounts.from_row,
}


def add_filters(environment: Environment) -> None:
    """Add ``{{ cost | cents }}``, ``{% set mark = outcome_mark(outcome, status) %}`` and so on, and
    show control and bidirectional characters by name in whatever is written.

    Call it before the first template is compiled."""
    environment.finalize = finalize
    environment.filters.update(FILTERS)
    environment.globals.update(GLOBALS)
