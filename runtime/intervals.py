"""Intervals of time in whole hours, as the sums of calls are kept."""

from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """A time from a full hour up to another one, which is not included."""

    start: datetime
    end: datetime

    @property
    def hours(self) -> int:
        return (self.end - self.start) // HOUR


def floor_hour(instant: datetime) -> datetime:
    """Return the beginning of the hour of an instant."""
    return instant.replace(minute=0, second=0, microsecond=0)
