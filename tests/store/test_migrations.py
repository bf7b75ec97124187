import sqlite3
from contextlib import closing

import pytest

from store.migrations import Database, Migrations


def add_table(migrations: Migrations, name: str) -> None:
    def migrate(db: Database) -> None:
        db.execute(f"create table {name} (id integer)")

    migrate.__name__ = name
    migrations()(migrate)


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def read_tables(connection):
    found = connection.execute("select name from sqlite_schema where type = 'table' order by name")
    return [name for (name,) in found if not name.startswith(("sqlite_", "_sqlite_"))]


def test_each_is_applied_once_and_only_what_is_new_is_pending(connection):
    migrations = Migrations("ours")
    add_table(migrations, "first")
    assert migrations.is_pending(connection)
    assert migrations.read_applied(connection) == set()
    migrations.apply(connection)
    assert not migrations.is_pending(connection)
    add_table(migrations, "second")
    assert migrations.is_pending(connection)
    migrations.apply(connection)
    assert read_tables(connection) == ["first", "second"]
    assert migrations.read_applied(connection) == {"first", "second"} == set(migrations.names)


def test_what_another_kind_of_database_had_is_not_ours(connection):
    others, ours = Migrations("others"), Migrations("ours")
    add_table(others, "first")
    add_table(ours, "first")
    others.apply(connection)
    assert ours.is_pending(connection)
    assert ours.read_applied(connection) == set()


def test_two_of_one_name_are_refused():
    migrations = Migrations("ours")
    add_table(migrations, "first")
    with pytest.raises(ValueError, match="named first"):
        add_table(migrations, "first")
