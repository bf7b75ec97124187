"""How people write a point in time: ``2026-01-31``, ``2026-01-31T18:00``, ``7d`` (that long ago)."""

import re
from datetime import datetime, timedelta

import click

from store import clock

_AGO = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Instant(click.ParamType[str]):
    """Gives the instant as ``clock.format_ms`` writes it. What names no zone is local time."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return clock.format_ms(_parse(value.strip()))
        except (ValueError, OverflowError):
            self.fail("write a day or time such as 2026-01-31 or 2026-01-31T18:00, or 7d, 12h, 30m")


def _parse(text: str) -> datetime:
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return clock.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    return datetime.fromisoformat(text).astimezone()
