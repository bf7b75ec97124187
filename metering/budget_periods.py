"""The days, weeks and months of a time zone, as intervals of UTC.

A day begins at midnight of the zone, and a week on Monday. With summer time some days have 23 or 25
hours. If the clock change skips midnight, the day begins at the change; if midnight occurs twice,
at the first."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

# Names that mean another zone on each machine, or none.
_OF_THE_MACHINE = {"Factory", "localtime", "posixrules"}

type Period = Literal["day", "week", "month"]


@dataclass(frozen=True, slots=True)
class Span:
    """A period of time from ``start`` (included) to ``end`` (excluded)."""

    start: datetime
    end: datetime

    def has(self, instant: datetime) -> bool:
        return self.start <= instant < self.end


@cache
def list_zones() -> frozenset[str]:
    """Return the names of all time zones, such as ``Europe/Berlin``."""
    return frozenset(available_timezones()) - _OF_THE_MACHINE


def find_span(period: Period, zone_name: str, now: datetime) -> Span:
    """Return the day, week or month of a time zone that includes the instant ``now``."""
    zone = ZoneInfo(zone_name)
    first = _STEPS[period]
    today = now.astimezone(zone).date()
    # The days around it too: where clocks are set over midnight, a date may begin before its midnight
    # (Toronto in 1919), and the last minutes of the date before come twice (Goose Bay until 2011).
    days = [first(today, step) for step in (-1, 0, 1, 2)]
    starts = [datetime.combine(day, time(), zone).astimezone(UTC) for day in days]
    place = bisect_right(starts, now)
    return Span(starts[place - 1], starts[place])


def _step_day(day: date, step: int) -> date:
    return day + timedelta(days=step)


def _step_week(day: date, step: int) -> date:
    return day + timedelta(days=7 * step - day.weekday())


def _step_month(day: date, step: int) -> date:
    months = day.year * 12 + day.month - 1 + step
    return date(months // 12, months % 12 + 1, 1)


_STEPS: dict[Period, Callable[[date, int], date]] = {
    "day": _step_day,
    "week": _step_week,
    "month": _step_month,
}
