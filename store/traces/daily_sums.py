"""Adding the days that were booked before there was ``usage_daily``, from the hourly sums.

One day is one transaction, the newest first. Until a day is there, ``rollup`` books its calls to its hours
alone, and readers take the hours (``rollup.find_day_left``).
"""

import sqlite3

from store.database import immediate
from store.traces import backfill_progress
from store.traces.backfill_progress import DAILY_SUMS
from store.traces.sums.rollup import DAY_KEYS, SUMS, find_day_left, name_day, number_day

_KEYS = ", ".join(DAY_KEYS[1:])
_ADD = (
    f"insert into usage_daily (day, {_KEYS}, {', '.join(SUMS)})"  # noqa: S608 - our own names
    f" select substr(hour, 1, 10), {_KEYS}, {', '.join(f'sum({name})' for name in SUMS)}"
    f" from usage_hourly where hour >= :day and hour < :day || '~' group by 1, {_KEYS}"
)


def add_day(connection: sqlite3.Connection) -> bool:
    """Add the newest day that is left. Return whether there may be more. Raises sqlite3.Error."""
    if find_day_left(connection) is None:
        return False
    with immediate(connection):
        number = find_day_left(connection)
        if number is None:
            return False
        day = name_day(number)
        connection.execute(_ADD, {"day": day})
        (earlier,) = connection.execute(
            "select substr(max(hour), 1, 10) from usage_hourly where hour < ?", (day,)
        ).fetchone()
        backfill_progress.write_next(
            connection, DAILY_SUMS, None if earlier is None else number_day(earlier)
        )
    return earlier is not None
