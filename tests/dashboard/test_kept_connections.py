"""Connections that stay open from one page to the next."""

import sqlite3
from contextlib import closing

import pytest

from dashboard import kept_connections
from dashboard.kept_connections import KeptConnections
from store.traces.database import TraceDatabase
from tests.store.traffic import make_entry

COUNT = "select count(*) from usage"


@pytest.fixture
def connections():
    with closing(KeptConnections()) as connections:
        yield connections


@pytest.fixture
def path(tmp_path):
    return make_traces(tmp_path / "traces.db", 1)


def make_traces(path, calls):
    with TraceDatabase(path) as traces:
        traces.insert([make_entry() for _ in range(calls)])
    return path


def count(connections, path):
    with connections.lend(path) as connection:
        return connection.execute(COUNT).fetchone()[0], connection


def is_closed(connection):
    try:
        connection.execute("select 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def test_the_next_page_has_the_same_connection_and_sees_what_was_recorded_meanwhile(
    connections, path
):
    assert count(connections, path)[0] == 1
    _, first = count(connections, path)
    make_traces(path, 2)
    assert count(connections, path) == (3, first)


def test_a_file_that_took_the_place_of_another_is_opened_anew(connections, path, tmp_path):
    _, old = count(connections, path)
    make_traces(tmp_path / "other.db", 5).replace(path)
    found, new = count(connections, path)
    assert found == 5
    assert new is not old
    assert is_closed(old)


def test_without_a_file_there_is_no_connection_even_where_one_was_kept(connections, path):
    _, old = count(connections, path)
    path.unlink()
    with pytest.raises(sqlite3.OperationalError):
        count(connections, path)
    assert is_closed(old)
    assert not path.exists()


def test_a_connection_is_lent_to_one_at_a_time(connections, path):
    with connections.lend(path) as first, connections.lend(path) as second:
        assert first is not second
    assert count(connections, path)[1] in (first, second)
    assert is_closed(first) != is_closed(second), "one for each file is enough"


def test_a_connection_that_failed_is_not_lent_again(connections, path):
    _, kept = count(connections, path)
    with pytest.raises(sqlite3.OperationalError), connections.lend(path) as connection:
        connection.execute("select nothing")
    assert connection is kept
    assert is_closed(kept)
    assert count(connections, path)[0] == 1


def test_a_connection_that_nobody_uses_stops_neither_writers_nor_the_log(connections, path):
    count(connections, path)
    with TraceDatabase(path) as traces:
        traces.insert([make_entry()])
        (busy, log_pages, moved) = traces.connection.execute(
            "pragma wal_checkpoint(truncate)"
        ).fetchone()
    assert (busy, log_pages, moved) == (0, 0, 0)


def test_those_not_used_for_longest_are_closed(connections, path, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_connections, "MAX_KEPT", 2)
    others = [make_traces(tmp_path / f"{name}.db", 1) for name in "ab"]
    opened = [count(connections, each)[1] for each in (path, *others)]
    assert [is_closed(each) for each in opened] == [True, False, False]
    connections.close()
    assert all(map(is_closed, opened))
