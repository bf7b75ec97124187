"""The migration of many hourly sums, which is done in short transactions."""

import sqlite3
from contextlib import closing, contextmanager

import pytest

from store import database
from store.traces import hourly_copy, schema
from store.traces.database import TraceDatabase
from tests.store.earlier import make_earlier

ROWS, HOURS = 40, 48  # ROWS: the other migrations change fewer
COUNT = 2 * HOURS
TOTALS = "select count(*), sum(entries), sum(output_tokens), sum(cost_cents) from usage_hourly"
EXPECTED = (COUNT, 3 * COUNT, 4 * COUNT, 1.5 * COUNT)


def make(path, number=8):
    """Make a database of before passes, by the migrations up to a number, with two sums an hour."""
    with closing(database.open_database(path, make_earlier(schema, number))) as connection:
        connection.executemany(
            "insert into usage_hourly (hour, proxy_endpoint_id, slug, model, entries, errors, unpriced,"
            " timed, input_tokens, output_tokens, cache_creation_input_tokens,"
            " cache_read_input_tokens, cost_cents, duration_ms)"
            " values (?, 'pe_1', 'default', ?, 3, 0, 0, 3, 1, 4, 2, 5, 1.5, 9)",
            [
                (f"2026-01-{1 + hour // 24:02}T{hour % 24:02}", model)
                for hour in range(HOURS)
                for model in ("", "claude-opus-5")
            ],
        )
        connection.execute(
            "insert into usage (entry_id, created_at, proxy_endpoint_id, slug, streamed, outcome,"
            " usage_source) values ('e', '2026', 'p', 's', 1, 'complete', 'final')"
        )
    return path


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "org" / "traces.db")


@pytest.fixture
def few_rows(monkeypatch):
    monkeypatch.setattr(hourly_copy, "ROWS", ROWS)


@pytest.fixture
def watch(monkeypatch):
    """Have a function called before the end of each transaction of this process, with its connection
    and the rows that it changes."""

    def watch(look):
        transaction = database._transaction

        @contextmanager
        def watched(connection, begin):
            before = connection.total_changes
            with transaction(connection, begin):
                yield
                look(connection, connection.total_changes - before)

        monkeypatch.setattr(database, "_transaction", watched)

    return watch


def read(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def describe(path):
    """Return the schema, the sums, and what is noted for later."""
    return [
        read(path, "select type, name, tbl_name, sql from sqlite_schema order by 2"),
        read(path, "select * from usage_hourly order by 1, 2, 3, 4"),
        read(path, "select * from backfills order by 1"),
        read(path, "pragma integrity_check"),
    ]


def migrate(path):
    TraceDatabase(path).close()


@pytest.fixture
def expected(tmp_path):
    """A database that was migrated in one transaction."""
    whole = make(tmp_path / "whole" / "traces.db")
    migrate(whole)
    return describe(whole)


def test_no_transaction_changes_many_rows(path, watch, few_rows):
    changed = []
    watch(lambda _connection, rows: changed.append(rows))
    migrate(path)
    assert max(changed) <= ROWS
    assert sum(changed) >= 2 * COUNT, "each row is copied, and removed where it was"
    assert read(path, TOTALS) == [EXPECTED]


def test_few_rows_are_copied_by_the_migration_itself(path, watch):
    changed = []
    watch(lambda _connection, rows: changed.append(rows))
    migrate(path)
    assert len(changed) == 1
    assert read(path, TOTALS) == [EXPECTED]


def test_the_database_is_the_same_however_its_sums_were_copied(path, few_rows, expected):
    migrate(path)
    assert describe(path) == expected


def test_sums_of_the_oldest_version_are_copied_too(tmp_path, few_rows, expected):
    path = make(tmp_path / "oldest" / "traces.db", 5)
    migrate(path)
    shape, sums, *_ = describe(path)
    assert [shape, sums] == expected[:2]


def test_readers_see_every_sum_at_any_moment(path, watch, few_rows):
    seen: set[object] = set()
    watch(lambda _connection, _rows: seen.add(*read(path, TOTALS)))
    migrate(path)
    assert seen == {EXPECTED}


def test_what_another_process_writes_meanwhile_is_kept(path, watch, few_rows):
    """In the pauses between two transactions, which is when another one can write."""
    transactions = 0

    def write(connection, _rows):
        nonlocal transactions
        transactions += 1
        if transactions == 3:
            connection.execute("commit")
            with closing(sqlite3.connect(path)) as other, other:
                other.execute("update usage_hourly set entries = entries + 1")
            connection.execute("begin")

    watch(write)
    migrate(path)
    assert transactions > 3
    assert read(path, "select sum(entries) from usage_hourly") == [(4 * COUNT,)]


@pytest.mark.slow
def test_wherever_it_ends_the_next_process_finishes_it(tmp_path, watch, few_rows, expected):
    left = 0

    def end(_connection, _rows):
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

    watch(end)
    ends = 0
    while left <= 0:
        ends += 1
        path = make(tmp_path / str(ends) / "traces.db")
        left = ends
        try:
            migrate(path)
        except KeyboardInterrupt:
            migrate(path)
        assert describe(path) == expected
    assert ends > 2 * COUNT // ROWS
