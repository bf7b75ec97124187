"""Intervals of time in whole hours, which are the units of the sums of calls."""

from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """The time from one full hour up to, and without, another."""

    start: datetime
    end: datetime

    @property
    def hours(self) -> int:
        return (self.end - self.start) // HOUR


def floor_hour(instant: datetime) -> datetime:
    """Return the beginning of the hour that contains an instant."""
    return instant.replace(minute=0, second=0, microsecond=0)
