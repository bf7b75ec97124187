import sqlite3
from contextlib import closing

import pytest

from dashboard.tables import query_limits
from store.traces.database import TraceDatabase

ALLOWED = {"json_each", "json_tree", "generate_series"}


@pytest.fixture
def connection(tmp_path):
    with TraceDatabase(tmp_path / "traces.db") as traces:
        query_limits.prepare(traces.connection)
        yield traces.connection


def list_modules():
    with closing(sqlite3.connect(":memory:")) as db:
        return {name for (name,) in db.execute("select name from pragma_module_list")}


WAYS = (
    "select * from {}",
    "select * from main.{} as x",
    "select count(*) from [{}]",
    "with a as (select * from {}) select * from a",
    "select (select count(*) from {})",
    "select 1 where exists (select 1 from {})",
)


def test_tables_of_modules_show_nothing_of_the_process(connection):
    modules = {name for name in list_modules() if not name.startswith("pragma_")}
    assert modules
    for name in modules - ALLOWED:
        for way in WAYS:
            for written in (name, name.upper()):
                with pytest.raises(sqlite3.DatabaseError):
                    connection.execute(way.format(written))


@pytest.mark.skipif(
    "sqlite_stmt" not in list_modules(),
    reason="this SQLite is built without it; run it with Debian's, which has it",
)
def test_the_sql_of_others_is_not_shown(connection):
    kept = connection.execute("select 'what somebody else asked' union all select 2")
    kept.fetchone()
    with closing(sqlite3.connect(":memory:")) as db:
        [(shown,)] = db.execute("select sql from sqlite_stmt").fetchall()
        assert shown == "select sql from sqlite_stmt"
    with pytest.raises(sqlite3.DatabaseError, match="prohibited"):
        connection.execute("select sql from sqlite_stmt")


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("select value from json_each('[1, 2]')", [(1,), (2,)]),
        ("select count(*) from json_tree('[1, [2]]')", [(4,)]),
        ("select count(*) from usage_log", [(0,)]),
        ("with usages as (select * from usage) select count(*) from usages", [(0,)]),
        ("select name from pragma_table_info('usage') limit 1", [("id",)]),
        ("select count(*) from search_text where search_text match 'x'", [(0,)]),
        ("select type from sqlite_master where name = 'usage'", [("table",)]),
    ],
)
def test_what_reading_the_file_takes_is_allowed(connection, query, rows):
    assert connection.execute(query).fetchall() == rows
