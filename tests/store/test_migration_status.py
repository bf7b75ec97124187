import sqlite3
from contextlib import closing

import pytest

from store.migration_status import MigrationStatus, read_migration_status
from store.traces import schema
from store.traces.calls.reader import read_newest_arrival
from tests.store.traffic import make_entry


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Let the migrations make each database."""


def test_a_database_that_was_just_made_is_up_to_date(traces, traces_path):
    assert read_migration_status(traces_path, schema.migrations) == MigrationStatus(
        pending=0, unknown=0
    )


def test_looking_changes_nothing(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    assert read_migration_status(path, schema.migrations).pending > 0
    assert path.stat().st_size == 0
    with pytest.raises(sqlite3.OperationalError):
        read_migration_status(tmp_path / "none.db", schema.migrations)
    assert not (tmp_path / "none.db").exists()


def test_what_a_newer_version_did_is_unknown(traces, traces_path):
    with closing(sqlite3.connect(traces_path)) as db, db:
        db.execute("update _sqlite_migrations set name = 'm999' where id = 1")
    assert read_migration_status(traces_path, schema.migrations) == MigrationStatus(
        pending=1, unknown=1
    )


def test_the_newest_arrival_is_by_time_and_not_by_insertion(traces, traces_path):
    assert read_newest_arrival(traces_path) is None
    for day in (3, 1):
        traces.insert([make_entry(created_at=f"2026-01-0{day}T00:00:00.000Z")])
    assert read_newest_arrival(traces_path) == "2026-01-03T00:00:00.000Z"
