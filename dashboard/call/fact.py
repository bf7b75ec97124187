"""One field of a call as its page displays it, and the ways of making one.

All text here is fit to be shown (see ``runtime.safe_text``) and still to be escaped, which templates do.
"""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from dashboard.addresses import session_address
from metering.formats import (
    UNKNOWN,
    format_bytes,
    format_bytes_exactly,
    format_count,
    format_duration,
    format_milliseconds,
)
from runtime.safe_text import reveal

_TABLE = "/traces/usage"


@dataclass(frozen=True, slots=True)
class Fact:
    """A field of a call, with its label. ``href`` leads to all calls with the same value.
    ``note`` ends with the time ``at``, where there is one."""

    label: str
    text: str
    href: str = ""
    note: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields that belong together."""

    title: str
    facts: tuple[Fact, ...]


def calls_address(column: str, value: object) -> str:
    """Return the address of all calls with this value."""
    return f"{_TABLE}?{column}={quote(str(value).encode('utf-8', 'replace'), safe='')}"


def linked(label: str, value: str | int | None, column: str) -> Fact:
    """Return a field with a link to all calls that have the same value."""
    if value is None:
        return Fact(label, UNKNOWN)
    return Fact(label, reveal(str(value)), href=calls_address(column, value))


def session(value: str | None) -> Fact:
    """Return the session, with a link to its page."""
    if value is None:
        return Fact("Session", UNKNOWN)
    return Fact("Session", reveal(value), href=session_address(value))


def name(label: str, value: str | None) -> Fact:
    """Return a field that is an identifier."""
    return Fact(label, UNKNOWN if value is None else reveal(value))


def count(label: str, value: int | None) -> Fact:
    """Return a field that is a number."""
    return Fact(label, format_count(value))


def size(label: str, value: int | None) -> Fact:
    """Return a field that is a number of bytes."""
    note = "" if value is None or value < 1000 else format_bytes_exactly(value)
    return Fact(label, format_bytes(value), note=note)


def duration(label: str, value: float | None) -> Fact:
    """Return a field that is a time in milliseconds."""
    note = "" if value is None or value < 1000 else format_milliseconds(value)
    return Fact(label, format_duration(value), note=note)
