"""Times as pages write them: as short as the reader needs, with the exact instant for machines."""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from markupsafe import Markup

from runtime.clock import format_ms, now, parse_instant

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK = timedelta(days=7)


def describe_moment(instant: datetime, at: datetime, zone: tzinfo) -> str:
    """Return an instant as it is read at another one.

    Today it is ``14:02``, within a week ``Thu 19``, else ``2026-11-19``.
    Days are those of ``zone``. What is still to come is a date, unless it is today."""
    there, here = instant.astimezone(zone), at.astimezone(zone)
    if there.date() == here.date():
        return f"{there:%H:%M}"
    if there < here and here.date() - there.date() < _WEEK:
        return f"{_DAYS[there.weekday()]} {there.day}"
    return there.date().isoformat()


def format_day(instant: datetime) -> str:
    """Return the day of an instant in UTC: ``Mon 23 Nov``, with the year where it is another."""
    there = instant.astimezone(UTC)
    return f"{there:%a %-d %b}" if there.year == now().year else f"{there:%a %-d %b %Y}"


def format_moment(stored: str | datetime | None, zone: str = "UTC", unknown: str = "—") -> Markup:
    """Return ``<time datetime="…">14:02</time>`` for a stored instant, as it is read now in a time zone."""
    if stored is None:
        return Markup.escape(unknown)
    instant = stored if isinstance(stored, datetime) else parse_instant(stored)
    words = describe_moment(instant, now(), _zone(zone))
    return Markup('<time datetime="{}">{}</time>').format(format_ms(instant), words)


@lru_cache
def _zone(name: str) -> tzinfo:
    return ZoneInfo(name)
