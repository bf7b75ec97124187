"""The whole content of a database as lines, for comparing."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing

FULL_TEXT = "sql not like 'create virtual table%'"


def dump_lines(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield every table and row. A full-text table without texts cannot be read as a table; those that
    it consists of are read like others."""
    shape = f"select type, name, sql from sqlite_schema where sql is not null and {FULL_TEXT} order by 2"  # noqa: S608
    for kind, name, sql in connection.execute(shape).fetchall():
        yield sql
        if kind == "table":
            with closing(connection.execute(f'select * from "{name}"')) as rows:  # noqa: S608
                yield from map(str, rows)
