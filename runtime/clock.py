"""The current time, instants as text, and ids that sort by time.

Instants are UTC, and so is a time without an offset. ``created_at`` of an entry has milliseconds
(``2026-01-02T03:04:05.678Z``). Durations are measured with a monotonic clock instead, so that setting
the clock does not change them."""

import os
import time
from datetime import UTC, datetime


def now() -> datetime:
    return datetime.now(UTC)


def format_ms(instant: datetime) -> str:
    """Return an instant as ``YYYY-MM-DDTHH:MM:SS.mmmZ``. Such texts sort by time."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return instant.isoformat(timespec="milliseconds")[:23] + "Z"


def format_seconds(instant: datetime) -> str:
    """Return an instant as ``YYYY-MM-DDTHH:MM:SSZ``."""
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_instant(text: str) -> datetime:
    """Return the instant of an ISO 8601 text.

    Raises ValueError for any other text, and OverflowError if the date is out of range in UTC."""
    instant = datetime.fromisoformat(text)
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def format_line_time(instant: datetime) -> str:
    """Return an instant as ``YYYY-MM-DD HH:MM:SSZ``, for lines on a terminal."""
    return instant.astimezone(UTC).isoformat(" ")[:19] + "Z"


def format_minute(instant: datetime) -> str:
    """Return an instant as ``YYYY-MM-DD HH:MM``, for columns whose heading names UTC."""
    return instant.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562), which is unique without a server, and sorts by time of creation.

    The 12 bits after the milliseconds are a fraction of a millisecond, as the RFC allows: two rows
    written one after the other are far more than a quarter of a microsecond apart, so their ids sort
    in the order of writing."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    value = (milliseconds & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | (nanoseconds * 4096 // 1_000_000) << 64
    value |= 0b10 << 62 | int.from_bytes(os.urandom(8)) & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
