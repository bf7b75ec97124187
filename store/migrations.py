"""The migrations of a database: functions that are applied once each, in order.

``sqlite-utils`` applies and records them. It takes a sixth of the time of a command to load, so it
is loaded only if a migration is pending."""

import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store import lean_sqlite_utils

type Database = lean_sqlite_utils.Database
type Migration = Callable[[Database], None]


class Migrations:
    """The migrations of one kind of database, recorded under ``name``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._migrations: dict[str, Migration] = {}

    def __call__(self) -> Callable[[Migration], Migration]:
        """Return a decorator that adds a function as the last migration."""

        def add(migration: Migration) -> Migration:
            name = migration.__name__
            if name in self._migrations:
                raise ValueError(f"there are two migrations named {name}")
            self._migrations[name] = migration
            return migration

        return add

    @property
    def names(self) -> list[str]:
        return list(self._migrations)

    def read_applied(self, connection: sqlite3.Connection) -> set[str]:
        """Return the names of the applied migrations, including unknown ones."""
        is_there = (
            "select 1 from sqlite_schema where type = 'table' and name = '_sqlite_migrations'"
        )
        if connection.execute(is_there).fetchone() is None:
            return set()
        names = "select name from _sqlite_migrations where migration_set = ?"
        return {name for (name,) in connection.execute(names, (self.name,))}

    def is_pending(self, connection: sqlite3.Connection) -> bool:
        """Return whether a migration is pending."""
        return not self._migrations.keys() <= self.read_applied(connection)

    def apply(self, connection: sqlite3.Connection) -> None:
        """Apply the pending migrations."""
        import_module("store.lean_sqlite_utils").apply(
            connection, self.name, self._migrations.values()
        )
