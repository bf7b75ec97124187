"""Looking for damage in databases for a bounded time."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from store import database

BUSY_TIMEOUT_S = 5.0
_STEPS = 10_000  # of SQLite's virtual machine, between two looks at the clock


class UnfinishedError(Exception):
    """The time was not enough."""


def find_damage(path: Path, ends_at_s: float) -> str | None:
    """Return what is damaged in a database, or None. ``ends_at_s`` is of the monotonic clock.

    Raises UnfinishedError, and sqlite3.OperationalError for a database that cannot be read now."""
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        connection.set_progress_handler(lambda: time.monotonic() > ends_at_s, _STEPS)
        try:
            found = [row[0] for row in connection.execute("pragma quick_check(3)")]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
                raise UnfinishedError from error
            raise
        except sqlite3.DatabaseError as error:
            return str(error)
    return None if found == ["ok"] else "; ".join(map(str, found))
