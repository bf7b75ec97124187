"""What shape a database is in, looked at without changing it."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database, Migrations

READ_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Condition:
    """``pending`` counts migrations still to be made; ``unknown`` those made by a newer version."""

    pending: int
    unknown: int


def read_condition(path: Path, migrations: Migrations) -> Condition:
    """Raises sqlite3.Error when it cannot be opened, or is no database."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=READ_TIMEOUT_S)) as connection:
        db = Database(connection, recursive_triggers=False, execute_plugins=False)
        pending = {migration.name for migration in migrations.pending(db)}
        applied = {migration.name for migration in migrations.applied(db)}
        known = {migration.name for migration in _all(migrations)}
        return Condition(pending=len(pending), unknown=len(applied - known))


def _all(migrations: Migrations) -> list[Migrations._Migration]:
    """What is pending in a database that has nothing."""
    with closing(sqlite3.connect(":memory:")) as connection:
        return migrations.pending(
            Database(connection, recursive_triggers=False, execute_plugins=False)
        )


def read_newest_arrival(path: Path) -> str | None:
    """``created_at`` of the latest entry of a trace database. Raises sqlite3.Error."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=READ_TIMEOUT_S)) as connection:
        row = connection.execute("select max(created_at) from usage").fetchone()
        return None if row is None else row[0]
