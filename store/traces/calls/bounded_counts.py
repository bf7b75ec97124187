"""Numbers of calls that are not in any sums, counted with bounded effort.

The effort is bounded in steps of SQLite rather than in time, so that the result does not depend on
the load of the machine. If the bound is reached, the number is None: there are too many calls to
count."""

import sqlite3
from collections.abc import Sequence

from store.traces.calls.listed_calls import Chosen

# Some 5 and 20 ms: of rows that are looked up one by one fewer than of rows that are read in order.
LOOKED_UP, READ = 60_000, 1_200_000
_INTERRUPTED = "SQLITE_INTERRUPT"


def count_chosen(db: sqlite3.Connection, chosen: Chosen) -> int | None:
    """Return the number of calls that ``chosen`` selects, or None if they are too many to count.

    Raises sqlite3.Error."""
    sql = f"select count(*) from usage as u where {chosen.sql}"  # noqa: S608 - our own text
    return _find_number(db, sql, chosen.values, LOOKED_UP)


def find_first_id(db: sqlite3.Connection, start: str, end: str) -> int | None:
    """Return the lowest id of the calls from ``start`` to before ``end``, 0 if there are none.

    None if they are too many to look at. A call that was stored late has a higher id than later calls."""
    sql = "select coalesce(min(id), 0) from usage where created_at >= ? and created_at < ?"
    return _find_number(db, sql, (start, end), READ)


def count_in_table(
    db: sqlite3.Connection, table: str, where: str, between: tuple[str, str], first_id: int
) -> int | None:
    """Return how many calls between two instants have rows in another table.

    ``where`` is an SQL condition on those rows, ``first_id`` the lowest id of the calls. None if there
    are too many rows. Raises sqlite3.Error."""
    sql = (
        f"select count(distinct t.usage_id) from {table} as t"  # noqa: S608 - our own text
        f" cross join usage as u on u.id = t.usage_id where t.usage_id >= ? and {where}"
        " and u.created_at >= ? and u.created_at < ?"
    )
    return _find_number(db, sql, (first_id, *between), READ)


def _find_number(
    db: sqlite3.Connection, sql: str, values: Sequence[str | int | float], steps: int
) -> int | None:
    db.set_progress_handler(lambda: 1, steps)
    try:
        (number,) = db.execute(sql, values).fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != _INTERRUPTED:
            raise
        return None
    finally:
        db.set_progress_handler(None, 0)
    return int(number)
