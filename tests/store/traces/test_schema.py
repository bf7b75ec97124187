import fcntl
import multiprocessing
import os
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from metering.entry import CostItem
from store import database
from store.lean_sqlite_utils import Database as LibraryDatabase
from store.migrations import Database, Migrations
from store.traces import schema
from store.traces.database import SCALARS
from store.traces.sums.rollup import SUMS, HourKey
from tests.store.dump import dump_lines
from tests.upstream import PATIENCE_S

CONTRACT = [
    "id",
    "entry_id",
    "created_at",
    "proxy_endpoint_id",
    "slug",
    "model",
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cost_cents",
    "duration_ms",
    "status_code",
    "request_body",
    "response_body",
    "streamed",
    "outcome",
    "usage_source",
    "ttfb_ms",
    "proxy_overhead_ms",
    "request_model",
    "upstream_request_id",
    "session_id",
    "agent_id",
    "client",
    "service_tier",
    "request_bytes",
    "response_bytes",
    "error_type",
    "credential_hmac",
]


@pytest.fixture(autouse=True)
def _databases_are_copies():
    """Let the migrations make each database."""


@pytest.fixture
def connection(traces_path):
    with closing(database.open_database(traces_path, schema.migrations)) as connection:
        yield connection


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"pragma table_info({table})")]


def dump(connection: sqlite3.Connection) -> list[str]:
    return list(dump_lines(connection))


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"pragma {name}").fetchone()[0]


def test_usage_log_begins_with_exactly_the_columns_of_the_contract(connection):
    assert columns(connection, "usage_log")[: len(CONTRACT)] == CONTRACT


def test_usage_has_every_scalar_of_an_entry(connection):
    assert set(SCALARS) < set(columns(connection, "usage"))
    assert set(SCALARS) < set(columns(connection, "usage_log"))


def test_usage_cost_has_every_field_of_a_line_item(connection):
    assert set(CostItem._fields) < set(columns(connection, "usage_cost"))


def test_hourly_sums_have_exactly_the_columns_that_are_written(connection):
    written = {*HourKey._fields, *SUMS}
    assert set(columns(connection, "usage_hourly")) == written


def test_usage_has_these_indexes(connection):
    indexes = {
        tuple(row[2] for row in connection.execute(f"pragma index_info({name})"))
        for _, name, _, origin, _ in connection.execute("pragma index_list(usage)")
        if origin == "c"
    }
    assert indexes == {
        ("created_at",),
        ("run_id",),
        ("proxy_endpoint_id", "created_at"),
        ("model", "created_at"),
        ("status_code", "created_at"),
        ("session_id", "agent_id", "created_at"),
        ("message_id",),
        ("thread_previous_id",),
        ("product", "created_at"),
        ("attributed_user", "created_at"),
        ("project", "created_at"),
    }


KEYSET = "(created_at, id) < (:at, :id)"


@pytest.mark.parametrize("table", ["usage", "usage_log"])
@pytest.mark.parametrize(
    ("where", "index"),
    [
        (KEYSET, "usage_created_at"),
        (f"proxy_endpoint_id = :it and {KEYSET}", "usage_proxy_endpoint"),
        (f"model = :it and {KEYSET}", "usage_model"),
        (f"status_code = :it and {KEYSET}", "usage_status_code"),
    ],
)
def test_a_page_in_order_of_arrival_is_read_from_an_index(connection, table, where, index):
    """An index ends with the id, so that one on the time of arrival orders calls of the same
    millisecond too, and a page costs no more at its end than at its beginning."""
    plan = connection.execute(
        f"explain query plan select id, model from {table} where {where}"  # noqa: S608
        " order by created_at desc, id desc limit 50",
        {"at": "2026-01-01", "id": 7, "it": "x"},
    ).fetchall()
    assert [row[3].partition("(")[0].split()[-1] for row in plan] == [index]
    assert "created_at<?" in plan[0][3]


def test_a_database_is_durable_shrinkable_and_impatient(connection):
    assert pragma(connection, "journal_mode") == "wal"
    assert pragma(connection, "synchronous") == 2  # FULL
    assert pragma(connection, "auto_vacuum") == 2  # INCREMENTAL
    assert pragma(connection, "busy_timeout") == 100


def test_only_the_owner_can_read_it_whatever_the_umask(tmp_path):
    path = tmp_path / "data" / "traces" / "org" / "traces.db"
    umask = os.umask(0)
    try:
        with closing(database.open_database(path, schema.migrations)) as connection:
            connection.execute("insert into loose_pieces values (1)")
            modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    finally:
        os.umask(umask)
    assert modes == {"traces.db": 0o600, "traces.db-wal": 0o600, "traces.db-shm": 0o600}
    for folder in list(path.parents)[:3]:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_later_column_is_the_last_of_the_view_too(connection):
    before = columns(connection, "usage_log")
    schema.add_to_usage(LibraryDatabase(connection), {"later_tokens": "integer", "mood": "text"})
    assert columns(connection, "usage")[-2:] == ["later_tokens", "mood"]
    assert columns(connection, "usage_log") == [*before, "later_tokens", "mood"]


def test_a_second_connection_leaves_the_locks_of_the_first(traces_path, connection):
    """Without them another process takes itself for the last one and deletes the log in use."""
    count = "select count(*) from loose_pieces"
    program = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(sys.argv[2]))"
    command = [sys.executable, "-c", program, str(traces_path), count]
    with closing(database.open_database(traces_path, schema.migrations)):
        for number in range(1, 3):
            connection.execute("insert into loose_pieces values (?)", (number,))
            done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603
            assert done.stdout == b"(%d,)\n" % number


def test_opening_what_is_up_to_date_waits_for_no_writer(traces_path, connection):
    connection.execute("begin immediate")
    with closing(database.open_database(traces_path, schema.migrations)) as again:
        assert columns(again, "usage")


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path):
    broken = Migrations("broken")

    @broken()
    def m001_half(db: Database) -> None:
        db.execute("create table half (id integer)")
        db.execute("create table half (id integer)")

    path = tmp_path / "broken.db"
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        database.open_database(path, broken)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select name from sqlite_schema").fetchall() == []


def test_what_is_not_a_database_is_reported_as_sqlite_does(tmp_path):
    path = tmp_path / "not.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        database.open_database(path, schema.migrations)
    assert path.read_bytes() == b"this is no database" * 100


def open_at_once(path: Path, migrations: Migrations, count: int) -> None:
    """Let processes open a database at once. Each leaves it open until all have it: one that is alone when it
    closes a database locks it for as long as the machine lets it wait there."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count, timeout=PATIENCE_S)
    processes = [
        context.Process(target=open_between, args=(path, migrations, barrier)) for _ in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * count


def open_between(path: Path, migrations: Migrations, barrier: Barrier) -> None:
    barrier.wait()
    try:
        with closing(database.open_database(path, migrations)):
            barrier.wait()
    except BaseException:
        barrier.abort()  # so that the others do not wait for this one
        raise


@pytest.mark.slow
def test_processes_that_make_the_same_database_at_once_all_succeed(tmp_path):
    for attempt in range(2):
        path = tmp_path / str(attempt) / "traces.db"
        open_at_once(path, schema.migrations, 4)
        with closing(database.open_database(path, schema.migrations)) as connection:
            assert columns(connection, "usage_log")[: len(CONTRACT)] == CONTRACT
            assert pragma(connection, "auto_vacuum") == 2
            applied = connection.execute("select name from _sqlite_migrations").fetchall()
            assert len(applied) == len(set(applied))


def test_whoever_finds_a_database_locked_by_its_migration_waits_for_the_end_of_it(
    traces_path, monkeypatch
):
    traces_path.parent.mkdir(parents=True)
    folder = os.open(traces_path.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    migrating = sqlite3.connect(traces_path, isolation_level=None, check_same_thread=False)
    migrating.execute("begin exclusive")

    def end_migration(fd, operation):
        migrating.close()
        os.close(folder)
        monkeypatch.undo()
        fcntl.flock(fd, operation)

    monkeypatch.setattr("store.database.fcntl.flock", end_migration)
    with closing(database.open_database(traces_path, schema.migrations)) as connection:
        assert columns(connection, "usage_log")[: len(CONTRACT)] == CONTRACT
        assert pragma(connection, "busy_timeout") == database.BUSY_TIMEOUT_MS


slow = Migrations("slow")


@slow()
def m001_slow(db: Database) -> None:
    """Several busy timeouts long."""
    db.execute("create table counted (n integer)")
    started = time.monotonic()
    while time.monotonic() < started + 4 * database.BUSY_TIMEOUT_MS / 1000:
        db.execute("insert into counted values (1)")


@pytest.mark.slow
def test_a_second_process_waits_for_a_migration_longer_than_the_busy_timeout(tmp_path):
    open_at_once(tmp_path / "slow.db", slow, 3)


def insert_and_fail(connection: sqlite3.Connection) -> None:
    with database.immediate(connection):
        connection.execute("insert into loose_pieces values (1)")
        raise ZeroDivisionError


def test_an_exception_rolls_a_transaction_back(connection):
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(connection)
    assert connection.execute("select count(*) from loose_pieces").fetchone() == (0,)
    assert not connection.in_transaction
