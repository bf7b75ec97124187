"""The expected cost of a month, from the cost so far and that of the last days.

For each hour left in the month, the mean hour of the last seven days is added: these include each
day of the week once. Days before the first call do not count. With data of less than a day there is
no expectation."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from runtime.intervals import HOUR, Interval, floor_hour

METHOD = (
    "Expected is the cost so far, and for each hour that is left of the month the mean of the last"
    " 7 days, or since the first call where that is later. With less than a day of calls nothing is"
    " expected."
)
_WEEK = timedelta(days=7)
_LEASTHOURS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The cost of a month in cents: so far, and expected at its end, None without enough data."""

    so_far: float
    expected: float | None


def find_month(now: datetime) -> Interval:
    """Return the month (UTC) of an instant."""
    start = floor_hour(now).replace(day=1, hour=0)
    return Interval(start, (start + timedelta(days=32)).replace(day=1))


def find_so_far(now: datetime) -> Interval:
    """Return the month up to the end of the current hour."""
    return Interval(find_month(now).start, floor_hour(now) + HOUR)


def find_today(now: datetime) -> Interval:
    """Return the day up to the end of the current hour."""
    return Interval(floor_hour(now).replace(hour=0), floor_hour(now) + HOUR)


def find_basis(first_hour: datetime | None, now: datetime) -> Interval | None:
    """Return the hours whose mean cost is expected for each remaining hour, or None if they are too few."""
    this_hour = floor_hour(now)
    if first_hour is None:
        return None
    basis = Interval(max(this_hour - _WEEK, first_hour), this_hour)
    return basis if basis.hours >= _LEASTHOURS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """The cost of a month, and the spend in it: the cost without calls that a subscription covers.

    ``today_cents`` is the cost of the day."""

    cost: Forecast
    spend: Forecast
    today_cents: float = 0.0


def make_forecast(
    so_far: float, basis: Interval | None, basis_cents: float, now: datetime
) -> Forecast:
    """Return the forecast for the month of an instant.

    ``so_far`` is the cost of the month in cents, ``basis_cents`` that of the hours ``basis``."""
    if basis is None:
        return Forecast(so_far=so_far, expected=None)
    left = (find_month(now).end - now) / HOUR
    return Forecast(so_far=so_far, expected=so_far + basis_cents / basis.hours * left)
