"""Numbers of calls that no sums have, counted as far as a page has time for it.

The effort is bounded in steps of SQLite rather than in time, so that the same calls always have a number or
never. Where it does not suffice, the number is None, which says that there are too many calls to look at.
"""

import sqlite3
from collections.abc import Sequence

from store.traces.calls.listed_calls import Chosen

# Some 5 and 20 ms: of rows that are looked up one by one fewer than of rows that are read in order.
LOOKED_UP, READ = 60_000, 1_200_000
_INTERRUPTED = "SQLITE_INTERRUPT"


def count_chosen(db: sqlite3.Connection, chosen: Chosen) -> int | None:
    """Return the number of calls that are chosen, None where they are too many to look at.

    Raises sqlite3.Error."""
    sql = f"select count(*) from usage as u where {chosen.sql}"  # noqa: S608 - our own text
    return _find_number(db, sql, chosen.values, LOOKED_UP)


def find_first_id(db: sqlite3.Connection, start: str, end: str) -> int | None:
    """Return the lowest id of the calls between two instants, 0 where there are none.

    None: they are too many to look at. Calls that came late have higher ids than later ones."""
    sql = "select coalesce(min(id), 0) from usage where created_at >= ? and created_at < ?"
    return _find_number(db, sql, (start, end), READ)


def count_in_table(
    db: sqlite3.Connection, table: str, where: str, between: tuple[str, str], first_id: int
) -> int | None:
    """Return the number of calls between two instants that another table has rows of.

    ``where`` is SQL that holds for these rows, ``first_id`` the lowest id of those calls. None: the rows are
    too many to look at. Raises sqlite3.Error."""
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
