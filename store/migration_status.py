"""The migrations that a database has had, read without changing it."""

import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store import database
from store.lean_sqlite_utils import Database, Migrations

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

    Raises sqlite3.Error when it cannot be opened or is not a database."""
    with closing(database.open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as connection:
        db = Database(connection, recursive_triggers=False, execute_plugins=False)
        pending = {migration.name for migration in migrations.pending(db)}
        applied = {migration.name for migration in migrations.applied(db)}
        return MigrationStatus(pending=len(pending), unknown=len(find_unknown(applied, migrations)))


def list_applied(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the migrations that a database has had, of whichever version."""
    table = "select 1 from sqlite_schema where name = '_sqlite_migrations'"
    if connection.execute(table).fetchone() is None:
        return ()
    rows = connection.execute("select name from _sqlite_migrations order by id")
    return tuple(row[0] for row in rows)


def find_unknown(applied: Collection[str], migrations: Migrations) -> set[str]:
    """Return those of these migrations that only a newer version has."""
    return set(applied) - {migration.name for migration in _all(migrations)}


def _all(migrations: Migrations) -> list[Migrations._Migration]:
    """Return all migrations: those that are pending in an empty database."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return migrations.pending(
            Database(connection, recursive_triggers=False, execute_plugins=False)
        )
