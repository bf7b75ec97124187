"""Template filters for times: as short as the reader needs, with the exact time for machines.

They are in the time zone of the organisation: templates have it as ``zone`` (``dashboard.rendering``),
and the filters take it from there.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from runtime.clock import format_ms, now, parse_instant

_WEEK = timedelta(days=7)


@lru_cache
def find_zone(name: str) -> tzinfo:
    """Return the time zone with a name such as ``Europe/Berlin``, UTC for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no zone, no fit name, or the name of a folder
        return UTC


def move(instant: datetime, zone: tzinfo | None) -> datetime:
    """Return ``instant`` in ``zone``; in UTC if its date would be out of range there."""
    try:
        return instant.astimezone(zone)
    except OverflowError:
        return instant.astimezone(UTC)


def describe_moment(instant: datetime, at: datetime) -> str:
    """Return ``instant`` as a short text for a reader at the time ``at``.

    Today it is ``14:02``, in the last seven days ``Thu 19``, else ``2026-11-19``. Days are those of the
    zone of ``at``. A future time is a date, unless it is today."""
    there = move(instant, at.tzinfo)
    if there.date() == at.date():
        return f"{there:%H:%M}"
    if there < at and at.date() - there.date() < _WEEK:
        return f"{there:%a %-d}"
    return there.date().isoformat()


def format_moment(stored: str | datetime | None, unknown: str = "—", *, zone: tzinfo) -> Markup:
    """Return a stored time as ``<time datetime="…">14:02</time>``, described for the present reader."""
    if stored is None:
        return Markup.escape(unknown)
    return _format_short(stored, zone, "")


def format_listed(stored: str | datetime, *, zone: tzinfo) -> Markup:
    """Return a stored time as ``format_moment`` does, with the time of day on other days: ``Thu 19
    14:02``."""
    return _format_short(stored, zone, Markup('<span class="hide-s"> {:%H:%M}</span>'))


def _format_short(stored: str | datetime, zone: tzinfo, time: str) -> Markup:
    instant = stored if isinstance(stored, datetime) else parse_instant(stored)
    at, there = now().astimezone(zone), move(instant, zone)
    more = time.format(there) if there.date() != at.date() else ""
    words = describe_moment(instant, at)
    return Markup('<time datetime="{}">{}{}</time>').format(format_ms(instant), words, more)


def format_clock(stored: str, *, zone: tzinfo) -> str:
    """Return the time of day of a stored time: ``14:02:10``."""
    return f"{move(parse_instant(stored), zone):%H:%M:%S}"


def format_exact(stored: str, *, zone: tzinfo) -> str:
    """Return day and time of a stored time: ``Mon 23 Nov, 14:02:10 UTC``."""
    there = move(parse_instant(stored), zone)
    return f"{_format_day(there)}, {there:%H:%M:%S} {name_offset(there)}"


def format_stamp(stored: str | datetime, with_seconds: bool = True, *, zone: tzinfo) -> Markup:
    """Return a stored or future time in full: ``<time datetime="…">2026-11-23 14:02:10 UTC</time>``."""
    instant = stored if isinstance(stored, datetime) else parse_instant(stored)
    there = move(instant, zone)
    time = f"{there:%H:%M:%S}" if with_seconds else f"{there:%H:%M}"
    words = f"{there:%Y-%m-%d} {time} {name_offset(there)}"
    return Markup('<time datetime="{}">{}</time>').format(format_ms(instant), words)


def format_span(started: str, ended: str, *, zone: tzinfo) -> str:
    """Return a span of time: ``Mon 23 Nov, 14:02 to 15:19 UTC``, with the year if it is not the present
    one."""
    first, last = (move(parse_instant(each), zone) for each in (started, ended))
    if f"{first:%F %H:%M %z}" == f"{last:%F %H:%M %z}":
        return f"{_format_day(first)}, {first:%H:%M} {name_offset(first)}"
    since = "" if first.utcoffset() == last.utcoffset() else f" {name_offset(first)}"
    day = "" if first.date() == last.date() else f"{_format_day(last)}, "
    until = f"{day}{last:%H:%M} {name_offset(last)}"
    return f"{_format_day(first)}, {first:%H:%M}{since} to {until}"


def name_offset(there: datetime) -> str:
    """Return the abbreviation of a time's zone at that time: ``UTC``, ``CET``, or ``UTC-03``."""
    name = there.tzname() or ""
    return name if name[:1].isalpha() else f"UTC{name}"


def _format_day(there: datetime) -> str:
    """Return a day: ``Mon 23 Nov``, with the year if it is not the present one."""
    is_this_year = there.year == now().astimezone(there.tzinfo).year
    return f"{there:%a %-d %b}" if is_this_year else f"{there:%a %-d %b %Y}"


def _zoned(write: Callable[..., str]) -> Callable[..., str]:
    """Return a template filter that calls ``write`` with the template's ``zone``. It raises KeyError
    without one."""

    @pass_context
    def write_in_zone(context: Context, *args: Any) -> str:
        return write(*args, zone=context["zone"])

    return write_in_zone


# For templates. A template whose macros use one is imported `with context`.
FILTERS = {
    "moment": _zoned(format_moment),
    "listed": _zoned(format_listed),
    "clock": _zoned(format_clock),
    "exact": _zoned(format_exact),
    "stamp": _zoned(format_stamp),
    "span": _zoned(format_span),
}
