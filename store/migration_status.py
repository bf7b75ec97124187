"""The migrations that were applied to a database, read without changing it."""

import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store import before_release, database
from store.before_release import EarlierVersionError
from store.migrations import Migrations
from store.traces.paths import find_trace_files

READ_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class MigrationStatus:
    """The differences between a database and this version.

    ``pending`` counts migrations still to be applied; ``unknown`` those applied by a newer version.
    """

    pending: int
    unknown: int


def read_migration_status(path: Path, migrations: Migrations) -> MigrationStatus:
    """Read the status of a database.

    Raises sqlite3.Error when it cannot be opened or is not a database, and EarlierVersionError."""
    with closing(database.open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as connection:
        if before_release.check(connection):
            return MigrationStatus(pending=1, unknown=0)
        applied, known = migrations.read_applied(connection), set(migrations.names)
        return MigrationStatus(pending=len(known - applied), unknown=len(applied - known))


def check_all(data_dir: Path) -> None:
    """Check that no database of a data directory is too old to be migrated.

    Raises EarlierVersionError. A database that cannot be read is skipped."""
    for path in (data_dir / "control.db", *find_trace_files(data_dir)):
        try:
            with closing(database.open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as connection:
                before_release.check(connection)
        except EarlierVersionError:
            raise
        except sqlite3.Error:
            continue


def list_applied(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the migrations that were applied to a database, including unknown ones."""
    table = "select 1 from sqlite_schema where name = '_sqlite_migrations'"
    if connection.execute(table).fetchone() is None:
        return ()
    rows = connection.execute("select name from _sqlite_migrations order by id")
    return tuple(row[0] for row in rows)


def find_unknown(applied: Collection[str], migrations: Migrations) -> set[str]:
    """Return those of the ``applied`` migrations that this version does not know."""
    return set(applied) - set(migrations.names)
