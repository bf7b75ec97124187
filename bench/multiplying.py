"""Larger copies of a database of ``bench.filling``, for pages of ten million calls.

Recording so many calls takes hours. Here each call becomes several at the same instant, in different
sessions, prompts and agents, with the names that a longer filling would have given them. Sums over
calls are multiplied. So all tables, indexes and sums are as the recorder would have made them, and
only the bodies are shared. SQLite copies rows in order and makes the indexes at the end."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from bench.load import BenchError
from store.traces.database import TraceDatabase
from store.traces.sums import histograms

CACHE_KIB = 256 * 1024
# Tables with a row for each call, or for each session.
ROWS = (
    "usage",
    "usage_cost",
    "tool_uses",
    "tags",
    "request_bodies",
    "response_bodies",
    "sessions",
    "agents_daily",
    "session_savings",
    "session_tools",
    "session_tool_targets",
)
# Tables of sums over all sessions.
SUMS = (
    "usage_hourly",
    "usage_daily",
    "timings_daily",
    "timings_by_group",
    "rate_limits_hourly",
    "call_counters",
    "time_counters",
    "tags_hourly",
    "tools_daily",
    "tool_sizes_daily",
    "tool_targets_daily",
)
SHARED = ("pieces", "segments", "search_progress")
_IDS = {"usage_id", "usage.id"}
_NAMES = {  # of columns that ``bench.filling`` numbers, as it does
    "entry_id": "bench-%09d",
    "upstream_request_id": "req_%09d",
    "session_id": "session-%d",
    "prompt_id": "prompt-%d",
    "agent_id": "agent-%d",
}


def multiply(filled: Path, path: Path, factor: int) -> None:
    """Make a database with ``factor`` copies of each call of a filled one.

    Raises BenchError if the filled one has rows in a table that this module does not know,
    sqlite3.Error."""
    making = path.with_suffix(".making")
    making.unlink(missing_ok=True)
    TraceDatabase(making).close()
    with closing(sqlite3.connect(making, isolation_level=None)) as db:
        for pragma in ("journal_mode=off", "synchronous=off", f"cache_size={-CACHE_KIB}"):
            db.execute(f"pragma {pragma}").fetchall()
        db.execute("attach ? as filled", (f"{filled}",))
        _check_tables(db)
        indexes = _drop_indexes(db)
        _copy(db, factor)
        for sql in indexes:
            db.execute(sql)
        db.execute("pragma journal_mode=wal").fetchall()
    making.rename(path)


def _check_tables(db: sqlite3.Connection) -> None:
    """Raise BenchError if a table that would not be copied has rows."""
    tables = db.execute(
        "select name from filled.sqlite_schema where type = 'table' and sql not like 'create virtual%'"
        " and name not like 'search\\_text\\_%' escape '\\' and name not like '%sqlite\\_%' escape '\\'"
        " and name not like 'search\\_response\\_%' escape '\\'"
    ).fetchall()
    for (name,) in tables:
        is_known = name in (*ROWS, *SUMS, *SHARED)
        if not is_known and db.execute(f"select 1 from filled.{name} limit 1").fetchone():  # noqa: S608 - a table's name
            raise BenchError(f"bench/multiplying.py does not know how to multiply {name}")


def _drop_indexes(db: sqlite3.Connection) -> Sequence[str]:
    """Drop all indexes, and return the statements to create them again."""
    rows = db.execute(
        "select name, sql from main.sqlite_schema where type = 'index' and sql is not null"
    ).fetchall()
    for name, _ in rows:
        db.execute(f"drop index main.{name}")
    return [sql for _, sql in rows]


def _copy(db: sqlite3.Connection, factor: int) -> None:
    db.create_function("multiply_histogram", 1, lambda stored: _multiply(stored, factor))
    db.execute("create temp table copies (n integer primary key)")
    db.executemany("insert into copies values (?)", ((n,) for n in range(factor)))
    db.execute("begin")
    for table in SHARED:
        db.execute(f"delete from main.{table}")  # noqa: S608 - our own names, as below
        db.execute(f"insert into main.{table} select * from filled.{table}")  # noqa: S608
    for table in ROWS:
        _insert(db, table, _write_row(db, table, factor), "cross join temp.copies as c")
    for table in SUMS:
        _insert(db, table, _write_sums(db, table, factor))
    db.execute("commit")


def _multiply(stored: bytes, factor: int) -> bytes:
    return histograms.pack(histograms.unpack(stored) * factor)


def _insert(
    db: sqlite3.Connection, table: str, columns: Mapping[str, str], others: str = ""
) -> None:
    db.execute(
        f"insert into main.{table} ({', '.join(columns)})"  # noqa: S608
        f" select {', '.join(columns.values())} from filled.{table} as t {others}"
    )


def _write_row(db: sqlite3.Connection, table: str, factor: int) -> dict[str, str]:
    """Return the SQL expression of each column for the copy number ``c.n`` of a row."""
    written = {}
    for name, _, _ in _list_columns(db, table):
        value = f"t.{name}"
        if name in _IDS or f"{table}.{name}" in _IDS:
            value = f"(t.{name} - 1) * {factor} + c.n + 1"
        elif name in _NAMES:
            prefix, _, _ = _NAMES[name].partition("%")
            number = f"substr(t.{name}, {len(prefix) + 1}) * {factor} + c.n"
            value = f"iif(t.{name} glob '{prefix}*', printf('{_NAMES[name]}', {number}), t.{name})"
        written[name] = value
    return written


def _write_sums(db: sqlite3.Connection, table: str, factor: int) -> dict[str, str]:
    """Return the SQL expression of each column for a row of sums."""
    written = {}
    for name, is_key, kind in _list_columns(db, table):
        if is_key or name.endswith("_share"):
            written[name] = f"t.{name}"
        elif kind == "BLOB":
            written[name] = f"multiply_histogram(t.{name})"
        else:
            written[name] = f"t.{name} * {factor}"
    return written


def _list_columns(db: sqlite3.Connection, table: str) -> list[tuple[str, bool, str]]:
    """Return (name, is in the primary key, type) of each column of a table."""
    rows = db.execute(
        "select name, pk > 0, upper(type) from pragma_table_info(?, 'filled')", (table,)
    )
    return [(name, bool(is_key), kind) for name, is_key, kind in rows]
