"""The period of an overview, and the one before it for comparison. All days are UTC."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from runtime.errors import InvalidInputError
from runtime.intervals import HOUR, Interval, floor_hour

type StepKind = Literal["hour", "day", "week"]

DEFAULT_SPAN = "7d"
MAX_DAYS = 366
_MAX_HOURLY_DAYS, _MAX_DAILY_DAYS = 2, 100
_DAYS = {"today": 1, "7d": 7, "14d": 14, "30d": 30, "90d": 90}
_MONTH = "month"
SPAN_TITLES = {
    "today": "Today",
    "7d": "7 days",
    "14d": "14 days",
    "30d": "30 days",
    "90d": "90 days",
    _MONTH: "This month",
}
# Where all are in a row that a phone has room for.
_SHORT_TITLES = {"30d": "30", "90d": "90", _MONTH: "Month"}
_CUSTOM = re.compile(r"(\d{4}-\d\d-\d\d)\.\.(\d{4}-\d\d-\d\d)", re.ASCII)
_DAY = timedelta(days=1)
_HOURS: dict[StepKind, int] = {"hour": 1, "day": 24, "week": 7 * 24}


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The days of an overview, both included. ``elapsed`` is the part of the period that has begun, until
    the end of the present hour."""

    span: str
    first: date
    last: date
    elapsed: Interval

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    @property
    def title(self) -> str:
        """Return the period in words: ``7 days``, or its first and its last day."""
        days = str(self.first) if self.first == self.last else f"{self.first} to {self.last}"
        return SPAN_TITLES.get(self.span, days)

    @property
    def step(self) -> StepKind:
        """Return the length of a chart's step, by the number of days."""
        if self.days <= _MAX_HOURLY_DAYS:
            return "hour"
        return "day" if self.days <= _MAX_DAILY_DAYS else "week"

    @property
    def steps(self) -> Sequence[Interval]:
        """Return the steps of the charts. The last one may be shorter than the others."""
        length = _HOURS[self.step] * HOUR
        end = midnight(self.last) + _DAY
        count = -(-(end - midnight(self.first)) // length)
        starts = [midnight(self.first) + number * length for number in range(count)]
        return [Interval(start, min(start + length, end)) for start in starts]

    @property
    def before(self) -> Interval:
        """Return the same length of time before this period, only as much as has elapsed of this one.

        For a month it is the month before, from its first day; if that is shorter, up to its end."""
        start, end = self.elapsed.start, self.elapsed.end
        if self.span == _MONTH:
            earlier = (start - _DAY).replace(day=1)
            return Interval(earlier, min(earlier + (end - start), start))
        length = self.days * _DAY
        return Interval(start - length, end - length)


def parse_span(text: str, now: datetime, argument: str = "span") -> Period:
    """Parse the period in an argument of an address, such as ``7d``. Raises InvalidInputError that names
    ``argument``."""
    today = now.date()
    if text == _MONTH:
        return _make(text, today.replace(day=1), today, now)
    if text in _DAYS:
        return _make(text, today - (_DAYS[text] - 1) * _DAY, today, now)
    named = _CUSTOM.fullmatch(text)
    try:
        first, last = map(date.fromisoformat, named.groups() if named else ())
    except ValueError as error:
        raise InvalidInputError(
            f"{argument} must be one of {', '.join(SPAN_TITLES)},"
            " or two days such as 2026-01-01..2026-01-31",
            argument,
        ) from error
    if not 0 <= (last - first).days < MAX_DAYS:
        raise InvalidInputError(
            f"{argument} must be from a day to a later one, and at most {MAX_DAYS} days", argument
        )
    if first.year < 1971 or last.year > 9990:
        raise InvalidInputError(f"{argument} must be between the years 1971 and 9990", argument)
    return _make(text, first, last, now)


def midnight(day: date) -> datetime:
    """Return the first instant of a day in UTC."""
    return datetime.combine(day, time.min, UTC)


def _make(span: str, first: date, last: date, now: datetime) -> Period:
    start = midnight(first)
    next_hour = floor_hour(now) + HOUR
    end = max(start, min(midnight(last) + _DAY, next_hour))
    return Period(span=span, first=first, last=last, elapsed=Interval(start, end))


def list_segments(address: Callable[[str], str], here: str) -> list[tuple[str, str, bool]]:
    """Return links to all spans, as (address, short title, whether it is the span ``here``)."""
    return [
        (address(span), _SHORT_TITLES.get(span, title), span == here)
        for span, title in SPAN_TITLES.items()
    ]
