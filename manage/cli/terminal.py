"""Output for people: tables, bars, colours, money and times, in characters that the terminal can show.

Columns are aligned by the width that terminals give to each character. Rows are never cut or
wrapped: piped output is the same, one row a line.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import StrEnum

import click
from wcwidth import wcswidth

from manage.cli.program import name_commands
from metering import formats
from runtime import clock
from runtime.safe_text import terminal_line

UNKNOWN = "-"
BAR_WIDTH = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


class Colour(StrEnum):
    """A colour for one kind of output; the value is the code of the terminal."""

    FAILED = "\x1b[31m"
    FOUND = "\x1b[1;33m"


_END = "\x1b[0m"


def format_text(value: object) -> str:
    """Return a value as one line that is safe to print, or ``-`` for None."""
    return UNKNOWN if value is None else terminal_line(str(value))


def measure(text: str) -> int:
    """Return the number of terminal columns that a text without control characters fills."""
    return max(wcswidth(text), 0)


def format_table(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Iterable[str] = (),
    empty: str | None = None,
) -> str:
    """Return a table as text, or ``empty`` if there are no rows and ``empty`` is not None.

    ``right`` names the columns that are aligned to the right."""
    rows = list(rows)
    if not rows and empty is not None:
        return name_commands(empty)
    return "\n".join(make_table(header, rows, right=right))


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> None:
    """Print a table. ``right`` names the columns that are aligned to the right."""
    click.echo(format_table(header, rows, right=right))


def make_table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()
) -> list[str]:
    """Return the lines of a table. ``right`` names the columns that are aligned to the right."""
    right = frozenset(right)
    lines = [[format_text(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(measure, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            _pad(cell, width, to_right=title in right)
            for cell, width, title in zip(line, widths, header, strict=True)
        ).rstrip()
        for line in lines
    ]


def _pad(cell: str, width: int, *, to_right: bool) -> str:
    space = " " * (width - measure(cell))
    return space + cell if to_right else cell + space


def make_bar(value: float, largest: float, *, width: int = BAR_WIDTH) -> str:
    """Return a bar as long as ``value`` / ``largest`` of ``width``, visible for any value above 0."""
    if value <= 0 or largest <= 0:
        return ""
    if not can_print("█"):
        return "#" * max(1, round(value / largest * width))
    eighths = max(1, round(value / largest * width * 8))
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def can_print(text: str) -> bool:
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def paint(text: str, colour: Colour) -> str:
    """Return ``text`` as one line that is safe to print, coloured if the output shows colours."""
    line = terminal_line(text)
    return f"{colour}{line}{_END}" if has_colours() else line


def has_colours() -> bool:
    """Return whether standard output is a terminal with colours and the user has not turned them off.

    See https://no-color.org."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def format_amount(cents: float | None) -> str:
    """Return an amount in dollars, formatted as on the pages."""
    return formats.format_cents(cents, UNKNOWN)


def format_cost(cents: float | Decimal | None) -> str:
    """Return an amount in dollars with four decimals, for columns that are compared."""
    return formats.format_cents_for_column(cents, UNKNOWN)


def format_count(count: int | None) -> str:
    return formats.format_count(count, UNKNOWN)


def format_time(instant: str | None) -> str:
    """Return an instant to the minute, in UTC, without a zone: the heading of the column names it."""
    if instant is None:
        return UNKNOWN
    try:
        return clock.format_minute(clock.parse_instant(instant))
    except (ValueError, TypeError, OverflowError):  # from a remote service of another version
        return format_text(instant)
