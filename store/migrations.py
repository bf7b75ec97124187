"""The migrations of a database: functions that are applied once each, in order.

``sqlite-utils`` applies them and keeps the record of it. Nearly always there is nothing to apply, so it is
loaded only then: to load it takes as long as a sixth of a command.
"""

import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store import lean_sqlite_utils

type Database = lean_sqlite_utils.Database
type Migration = Callable[[Database], None]


class Migrations:
    """The migrations of one kind of database, under the name that its record has."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._migrations: dict[str, Migration] = {}

    def __call__(self) -> Callable[[Migration], Migration]:
        """Return a decorator that adds a function at the end."""

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
        """Return the names of what a database has had, also of what only a newer version knows."""
        is_there = (
            "select 1 from sqlite_schema where type = 'table' and name = '_sqlite_migrations'"
        )
        if connection.execute(is_there).fetchone() is None:
            return set()
        names = "select name from _sqlite_migrations where migration_set = ?"
        return {name for (name,) in connection.execute(names, (self.name,))}

    def is_pending(self, connection: sqlite3.Connection) -> bool:
        """Return whether anything is to be applied."""
        return not self._migrations.keys() <= self.read_applied(connection)

    def apply(self, connection: sqlite3.Connection) -> None:
        """Apply what is pending."""
        import_module("store.lean_sqlite_utils").apply(
            connection, self.name, self._migrations.values()
        )
