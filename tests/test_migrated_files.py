"""A copy of a migrated database is what the migrations make."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.control.database import ControlDatabase
from store.traces.database import TraceDatabase


def describe(path: Path) -> tuple[object, ...]:
    """Return what a database is: its settings, its tables with their columns, its migrations."""
    with closing(sqlite3.connect(path)) as db:
        settings = [
            db.execute(f"pragma {name}").fetchone() for name in ("journal_mode", "auto_vacuum")
        ]
        schema = db.execute("select type, name, sql from sqlite_master order by 1, 2").fetchall()
        migrations = db.execute("select migration_set, name from _sqlite_migrations").fetchall()
    return path.stat().st_mode, settings, schema, migrations


@pytest.mark.parametrize(
    ("name", "kind"), [("control.db", ControlDatabase), ("traces.db", TraceDatabase)]
)
def test_a_copy_is_what_the_migrations_make(request, tmp_path, name, kind):
    made, copied = tmp_path / "made" / name, tmp_path / "copied" / name
    with kind(made):
        pass
    request.getfixturevalue("quick_databases")
    with kind(copied):
        assert copied.stat().st_size == made.stat().st_size
    contents = [content for _, content in request.getfixturevalue("migrated_files")]
    # With the very times of the migrations that ran before, not of others of its own.
    assert copied.read_bytes() in contents
    assert describe(copied) == describe(made)
    assert describe(made)[3]
