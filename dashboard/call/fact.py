"""One field of a call as its page displays it."""

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from metering.formats import (
    UNKNOWN,
    format_bytes,
    format_bytes_exactly,
    format_count,
    format_duration,
    format_milliseconds,
)

_UNIQUE = {"entry_id", "upstream_request_id", "message_id"}  # so no other call has the same
_NAMED_BY_CLIENT = {"attributed_user", "project"}


@dataclass(frozen=True, slots=True)
class Fact:
    """A field of a call, with its label. ``href`` is the address of all calls with the same value, or
    empty. ``at`` is a time that is displayed after ``note``."""

    label: str
    text: str
    href: str = ""
    note: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields of a call below one title."""

    title: str
    facts: tuple[Fact, ...]


def calls_address(column: str, value: object) -> str:
    """Return the address of the list of calls whose ``column`` has this value."""
    return f"/traces/usage?{column}={quote(str(value).encode('utf-8', 'replace'), safe='')}"


def make_fact(label: str, column: str, value: object) -> Fact:
    """Return a field, formatted by its type and column name: bytes, durations and counts with units, other
    values with a link to all calls that share them."""
    match value:
        case None | "":
            return Fact(label, UNKNOWN)
        case int() if column.endswith("_bytes"):
            note = "" if value < 1000 else format_bytes_exactly(value)
            return Fact(label, format_bytes(value), note=note)
        case int() | float() if column.endswith("_ms"):
            note = "" if value < 1000 else format_milliseconds(value)
            return Fact(label, format_duration(value), note=note)
        case int() if column != "status_code":
            return Fact(label, format_count(value))
    note = "as the client says" if column in _NAMED_BY_CLIENT else ""
    href = "" if column in _UNIQUE else calls_address(column, value)
    return Fact(label, str(value), href, note)
