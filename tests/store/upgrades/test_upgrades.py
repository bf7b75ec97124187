"""Databases of each release, and of the last commit before the first, become today's with all they had."""

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from extensions.credentials_in_calls.findings import migrations as secrets_migrations
from extensions.otel.positions import migrations as otel_migrations
from store.before_release import COMMIT, EarlierVersionError
from store.control import schema as control_schema
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.database import open_database
from store.migration_status import MigrationStatus, check_all, read_migration_status
from store.migrations import Migrations
from store.traces import schema as traces_schema
from store.traces.bodies.bodies import StoredBodies
from store.traces.database import TraceDatabase
from tests.store.upgrades.calls import CALLS
from tests.store.upgrades.dumps import find_dumps, load, make_dump

MIGRATIONS = {
    "traces": traces_schema.migrations,
    "control": control_schema.migrations,
    "secrets": secrets_migrations,
    "otel": otel_migrations,
}
OLD_TRACES, OLD_CONTROL = (
    next(path for path in find_dumps(kind) if path.stem.endswith(COMMIT))
    for kind in ("traces", "control")
)
# It had what was left to be done for calls of earlier versions.
GONE = "backfills"

each_dump = pytest.mark.parametrize(
    ("dump", "migrations"),
    [(dump, MIGRATIONS[kind]) for kind in MIGRATIONS for dump in find_dumps(kind)],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Let the migrations make each database."""


def open_it(path: Path, migrations: Migrations) -> AbstractContextManager[sqlite3.Connection]:
    return closing(open_database(path, migrations))


type Columns = dict[str, list[str]]


def list_columns(path: Path) -> Columns:
    """Return the columns of each table that is not about the schema."""
    with closing(sqlite3.connect(path)) as db:
        found: Columns = defaultdict(list)
        for table, column in db.execute(
            "select t.name, c.name from sqlite_schema as t, pragma_table_info(t.name) as c"
            " where t.type = 'table' and t.name not like '%sqlite%'"
            " and sql not like 'create virtual%' and t.name <> ?",
            (GONE,),
        ):
            found[table].append(column)
        return found


def read_rows(path: Path, columns: Columns) -> dict[str, list[tuple[object, ...]]]:
    """Return what the rows of each table have in these columns."""
    with closing(sqlite3.connect(path)) as db:
        return {
            table: db.execute(f'select {", ".join(names)} from "{table}"').fetchall()  # noqa: S608 - our own names
            for table, names in columns.items()
        }


def describe_schema(db: sqlite3.Connection) -> dict[str, list[object]]:
    """Return what a schema means: its statements without comments and spaces, with their columns in order."""
    found: dict[str, list[object]] = {}
    for kind, name, sql in db.execute("select type, name, sql from sqlite_schema").fetchall():
        text = re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql or "")).lower().strip()
        described: list[object] = [kind, re.sub(r"\s*([(),])\s*", r"\1", text)]
        pragma = "index_xinfo" if kind == "index" else "table_xinfo"
        described.append(db.execute(f"select * from pragma_{pragma}(?)", (name,)).fetchall())  # noqa: S608
        found[name] = described
    return found


@each_dump
def test_a_stored_database_is_taken_as_it_is(dump, migrations, tmp_path):
    path = tmp_path / "old" / "it.db"
    load(dump, path)
    columns = list_columns(path)
    rows = read_rows(path, columns)
    assert COMMIT not in dump.stem or all(rows.values())
    with (
        open_it(path, migrations) as db,
        open_it(tmp_path / "new" / "it.db", migrations) as new,
    ):
        assert describe_schema(db) == describe_schema(new)
    assert read_rows(path, columns) == rows
    assert read_migration_status(path, migrations) == MigrationStatus(0, 0)
    content = path.read_bytes()
    with open_it(path, migrations):
        pass
    assert path.read_bytes() == content


@pytest.mark.parametrize("dump", find_dumps("traces"), ids=lambda path: path.stem)
def test_stored_calls_are_read_and_go_on(dump, tmp_path):
    path = tmp_path / "traces.db"
    load(dump, path)
    with TraceDatabase(path) as traces:
        assert [problem.message for problem in traces.verify()] == []
        bodies = [traces.read_bodies(number) for number in range(1, len(CALLS) + 1)]
        assert bodies == [
            StoredBodies(request=call.request, response=call.response) for call in CALLS
        ]
        assert traces.connection.execute("select sum(entries) from usage_days").fetchone() == (8,)
        products = traces.connection.execute("select distinct product from usage_log").fetchall()
        assert products == [("messages",)]


@pytest.mark.parametrize("dump", find_dumps("control"), ids=lambda path: path.stem)
def test_a_stored_control_database_is_used(dump, tmp_path):
    path = tmp_path / "control.db"
    load(dump, path)
    with ControlDatabase(path) as control:
        assert control.set_up() is False
        management = Management(control, tmp_path)
        caller = management.local_caller()
        assert caller.role == "owner"
        assert [each.slug for each in management.list_endpoints(caller).items] == ["default"]
        management.create_key(caller, "laptop")
        assert [each.email for each in Users(control).list()] == [None]
        with control.reading() as db:
            assert db.execute("pragma foreign_key_check").fetchall() == []


def lack_a_migration(db: sqlite3.Connection) -> None:
    db.execute("delete from _sqlite_migrations where id = (select max(id) from _sqlite_migrations)")


def have_work_left(db: sqlite3.Connection) -> None:
    db.execute("insert into backfills values ('body fields', 7)")


@pytest.mark.parametrize(
    ("dump", "migrations", "change"),
    [
        (OLD_TRACES, traces_schema.migrations, lack_a_migration),
        (OLD_TRACES, traces_schema.migrations, have_work_left),
        (OLD_CONTROL, control_schema.migrations, lack_a_migration),
    ],
)
def test_an_older_database_is_refused_unchanged_with_what_to_do(
    dump: Path,
    migrations: Migrations,
    change: Callable[[sqlite3.Connection], None],
    tmp_path: Path,
) -> None:
    path = tmp_path / "traces" / "org" / "traces.db"
    if dump is OLD_CONTROL:
        path = tmp_path / "control.db"
    load(dump, path)
    with closing(sqlite3.connect(path)) as db, db:
        change(db)
    content = path.read_bytes()
    for look in (
        lambda: open_database(path, migrations),
        lambda: read_migration_status(path, migrations),
        lambda: check_all(tmp_path),
    ):
        with pytest.raises(EarlierVersionError, match=f"{path.name} is of an earlier.*{COMMIT}"):
            look()
    assert path.read_bytes() == content


def test_a_stored_database_is_made_again_as_it_was(tmp_path):
    """Full-text tables and what is no text included."""
    load(OLD_TRACES, tmp_path / "traces.db")
    assert make_dump(tmp_path / "traces.db") == OLD_TRACES.read_text()
