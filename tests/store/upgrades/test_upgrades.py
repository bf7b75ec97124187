"""Databases of every earlier schema become today's, with all that they had."""

import sqlite3
from contextlib import closing

import pytest

from store.control import schema as control_schema
from store.control.database import ControlDatabase
from store.control.management import Management
from store.control.users import Users
from store.migration_status import MigrationStatus, read_migration_status
from store.traces import schema as traces_schema
from store.traces.bodies.bodies import StoredBodies
from store.traces.database import TraceDatabase
from tests.store.upgrades.calls import CALLS
from tests.store.upgrades.dumps import find_dumps, load, make_dump
from tests.store.upgrades.upgrading import upgrade

TRACES, CONTROL = find_dumps("traces"), find_dumps("control")
SHAPE = "select type, name, sql from sqlite_schema where name not like 'sqlite%' order by 2"


@pytest.mark.parametrize(
    ("kind", "migrations"),
    [("traces", traces_schema.migrations), ("control", control_schema.migrations)],
)
def test_there_is_a_stored_database_of_each_schema_before_the_newest(kind, migrations):
    numbers = {int(path.stem[-3:]) for path in find_dumps(kind)}
    missing = set(range(1, len(migrations.names))) - numbers
    advice = (
        "check out the version before its migration, and run python -m tests.store.upgrades.make"
    )
    assert missing == set(), f"{advice} for these numbers of {kind}"


@pytest.fixture(scope="module")
def new_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("new") / "traces.db"
    TraceDatabase(path).close()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("dump", TRACES, ids=lambda path: path.stem)
def test_traces_of_an_earlier_version_become_todays(dump, tmp_path, new_path):
    path = upgrade(dump, tmp_path, "org")
    assert read_migration_status(path, traces_schema.migrations) == MigrationStatus(0, 0)
    with TraceDatabase(path) as traces, closing(sqlite3.connect(new_path)) as new:
        assert [problem.message for problem in traces.verify()] == []
        db = traces.connection
        assert db.execute(SHAPE).fetchall() == new.execute(SHAPE).fetchall()
        assert db.execute("select * from backfills").fetchall() == []
        bodies = [traces.read_bodies(number) for number in range(1, len(CALLS) + 1)]
        assert bodies == [
            StoredBodies(request=call.request, response=call.response) for call in CALLS
        ]
        assert db.execute(
            "select status_code, outcome, streamed, output_tokens, stop_reason from usage order by id"
        ).fetchall() == [
            (200, "complete", 1, 31, "end_turn"),
            (200, "complete", 1, 17, "end_turn"),
            (200, "complete", 1, 23, "end_turn"),
            (200, "complete", 0, 8, "end_turn"),
            (200, "complete", 0, 5, "end_turn"),
            (529, "upstream_error", 0, None, None),
            (400, "upstream_error", 0, None, None),
            (200, "upstream_interrupted", 1, 7, None),
        ]
        assert db.execute("select usage_id, cause from cache_breaks").fetchall() == [(3, "system")]
        (calls, entries) = db.execute(
            "select (select sum(entries) from usage_hourly), (select sum(entries) from usage_daily)"
        ).fetchone()
        assert calls == entries == len(CALLS)


@pytest.mark.parametrize("dump", CONTROL, ids=lambda path: path.stem)
def test_control_of_an_earlier_version_becomes_todays(dump, tmp_path):
    path = tmp_path / "control.db"
    load(dump, path)
    with closing(sqlite3.connect(path)) as before:
        secrets = before.execute("select * from secrets").fetchall()
    with ControlDatabase(path) as control:
        assert control.set_up() is False
        management = Management(control, tmp_path)
        caller = management.local_caller()
        assert caller.role == "owner"
        assert [each.slug for each in management.list_endpoints(caller).items] == ["default"]
        management.create_key(caller, "laptop")
        assert [each.email for each in Users(control).list()] == [None]
        with control.reading() as db:
            assert db.execute("select * from secrets").fetchall() == secrets
            assert db.execute("pragma foreign_key_check").fetchall() == []
            with ControlDatabase(tmp_path / "new.db") as new, new.reading() as fresh:
                assert db.execute(SHAPE).fetchall() == fresh.execute(SHAPE).fetchall()
    assert read_migration_status(path, control_schema.migrations) == MigrationStatus(0, 0)


def test_a_stored_database_is_made_again_as_it_was(tmp_path):
    """Full-text tables and what is no text included."""
    load(TRACES[-1], tmp_path / "traces.db")
    assert make_dump(tmp_path / "traces.db") == TRACES[-1].read_text()
