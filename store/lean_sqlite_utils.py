"""The library ``sqlite-utils`` without pandas and numpy. Import it from here only.

It imports both if they are installed, for their types, which our migrations do not use. These two
take longer to import than everything else in a process, and start threads, which the pool of query
processes must not have when it forks."""

import sqlite3
import sys
from collections.abc import Callable, Iterable

_MODULES: dict[str, object] = sys.modules  # type: ignore[assignment]
_absent = {"numpy", "pandas"} - set(_MODULES)
_MODULES.update(dict.fromkeys(_absent))  # None: not to be found

from sqlite_utils import Database, Migrations  # noqa: E402

for _name in _absent:  # whoever needs them may import them
    del _MODULES[_name]

__all__ = ["Database", "apply"]


def apply(
    connection: sqlite3.Connection, name: str, migrations: Iterable[Callable[[Database], None]]
) -> None:
    """Apply the pending migrations, and record them under ``name``."""
    known = Migrations(name)
    for migration in migrations:
        known()(migration)
    known.apply(Database(connection, recursive_triggers=False, execute_plugins=False))
