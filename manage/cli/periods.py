"""Times and days in options, and the options of a period. Everything is UTC.

A time without an offset is UTC, one with an offset is converted. ``--from`` and ``--to`` name days,
both included; ``--since`` and ``--until`` name points in time, the first included and the second not.
This holds for every command that has these options."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import click

from runtime import clock

_AGO = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_ONE_DAY = timedelta(days=1)

type Command = Callable[..., Any]


class Instant(click.ParamType[datetime]):
    """A point in time: a day, a day with a time, or ``7d`` for 7 days ago.

    Examples: ``2026-01-31``, ``2026-01-31T18:00``, ``2026-01-31T18:00+02:00``."""

    name = "time"

    def convert(
        self,
        value: str | datetime,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return _parse_ago(value.strip()) or clock.parse_instant(value.strip())
        except (ValueError, OverflowError):
            self.fail("write a day or time such as 2026-01-31 or 2026-01-31T18:00, or 7d, 12h, 30m")


class Day(click.ParamType[date]):
    """A parameter that is a day: ``2026-01-31``, or ``7d`` (the day that many days before today)."""

    name = "day"

    def convert(
        self, value: str | date, param: click.Parameter | None, ctx: click.Context | None
    ) -> date:
        if isinstance(value, date):
            return value
        text = value.strip()
        ago = _AGO.fullmatch(text)
        try:
            if ago is None:
                return date.fromisoformat(text)
            if ago[2] in "dw":
                return (clock.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})).date()
        except (ValueError, OverflowError):
            pass
        self.fail("write a day (UTC) such as 2026-01-31, or 7d, 2w")


def period_options(point: click.ParamType[Any]) -> Callable[[Command], Command]:
    """Add ``--from``, ``--to``, ``--since`` and ``--until``; ``point`` is the type of the last two."""
    kind = point.name.upper()

    def add(command: Command) -> Command:
        for decorator in (
            click.option(
                "--until",
                type=point,
                metavar=kind,
                help=f"Calls that arrived before this {point.name} (UTC).",
            ),
            click.option(
                "--since",
                type=point,
                metavar=kind,
                help=f"Calls that arrived at this {point.name} (UTC) or later.",
            ),
            click.option(
                "--to", "to_day", type=Day(), metavar="DAY", help="The last day (UTC), included."
            ),
            click.option(
                "--from", "from_day", type=Day(), metavar="DAY", help="The first day (UTC)."
            ),
        ):
            command = decorator(command)
        return command

    return add


def find_days(
    from_day: date | None, to_day: date | None, since: date | None, until: date | None
) -> tuple[date | None, date | None]:
    """Return the first and the last day of the period, None for an open end. Raises click.UsageError."""
    _refuse_both(from_day, to_day, since, until)
    last = to_day if until is None or until == date.min else until - _ONE_DAY
    return from_day or since, last


def find_instants(
    from_day: date | None, to_day: date | None, since: datetime | None, until: datetime | None
) -> tuple[str | None, str | None]:
    """Return the first instant of a period and the first instant after it, None for an open end.

    They are in the format of ``clock.format_ms``. Raises click.UsageError."""
    _refuse_both(from_day, to_day, since, until)
    if from_day is not None:
        since = _midnight(from_day)
    if to_day is not None and to_day != date.max:
        until = _midnight(to_day + _ONE_DAY)
    return (
        None if since is None else clock.format_ms(since),
        None if until is None else clock.format_ms(until),
    )


def _refuse_both(
    from_day: object | None, to_day: object | None, since: object | None, until: object | None
) -> None:
    if from_day is not None and since is not None:
        raise click.UsageError("--from and --since exclude each other")
    if to_day is not None and until is not None:
        raise click.UsageError("--to and --until exclude each other")


def _parse_ago(text: str) -> datetime | None:
    ago = _AGO.fullmatch(text)
    return ago and clock.now() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
