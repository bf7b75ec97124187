"""Limits for SQL from a browser on a connection to a trace database.

The file is opened read-only, and Datasette runs only what starts like a query. That leaves functions and
pragmas that reveal the server (its paths, its libraries). The authorizer allows what is needed to read
tables and refuses everything else. These limits have messages for the caller. A query that exceeds them
in another way (one step of SQLite that takes minutes, a text that takes gigabytes to parse) is stopped
with its process, which the query proxy kills and the kernel limits (see queries/query_proxy,
queries/isolation).
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

MAX_RESULT_BYTES = 16 << 20
MAX_VALUE_BYTES = MAX_RESULT_BYTES
MAX_COLUMNS = 100
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,  # a list of values as long as a query takes three for each
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COLUMN: MAX_COLUMNS,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}
# Tables that are there without being created are those of SQLite's modules, some of which show what the
# file does not hold: sqlite_stmt the SQL of others, dbstat the pages. These show nothing but what they are
# given; a build may lack generate_series.
_TABLES_OF_MODULES = {"generate_series", "json_each", "json_tree"}
# Datasette describes tables with these, and schema_version tells when to do so again. The index of texts
# asks for data_version. None reveals the path of the file.
_PRAGMAS = {
    "data_version",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_xinfo",
    "schema_version",
}
_REFUSED_FUNCTIONS = {
    "edit",
    "fts3_tokenizer",  # gives a pointer out, and takes one
    "load_extension",
    "randomblob",
    "readfile",
    "sqlite_compileoption_get",
    "sqlite_compileoption_used",
    "sqlite_log",
    "sqlite_source_id",
    "sqlite_version",
    "writefile",
    "zeroblob",
}
_CHECK_EVERY_STEPS = 500  # one takes less than a microsecond, or as long as making a value takes


class TooLargeError(Exception):
    """Raised if the result is larger than a page may be, or a value longer than a query may have."""


class _Texts:
    """A text factory for SQLite that counts the bytes of texts. It raises TooLargeError above a limit. A
    text in Python can take four times its bytes."""

    def __init__(self) -> None:
        self.left = MAX_RESULT_BYTES

    def __call__(self, raw: bytes) -> str:
        self.left -= len(raw)
        if self.left < 0:
            raise TooLargeError(_TOO_LARGE)
        return raw.decode(errors="replace")


_TOO_LARGE = (
    f"The result is larger than {MAX_RESULT_BYTES >> 20} MB. Ask for fewer rows (_size=10), leave"
    " out the bodies (_nocol=request_body&_nocol=response_body), or query the table usage."
)


def prepare(connection: sqlite3.Connection) -> None:
    """Restrict a connection to reading, permanently. Call it once, before any SQL of visitors runs on it."""
    connection.execute("pragma query_only = 1")
    connection.execute("pragma temp_store = memory")  # sorting and recursion leave the disk alone
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    # Making these counts as a change of the schema, and they are made when first asked for.
    connection.execute("select 1 from json_each('[]'), json_tree('[]')").fetchall()
    connection.set_authorizer(_Authorizer(connection))


@contextmanager
def limits(
    connection: sqlite3.Connection, limit_ms: float, abandoned: threading.Event
) -> Iterator[None]:
    """Limit the time and memory of one query until the end of the block.

    Raises TooLargeError if a value is too long. A query that takes too long or is abandoned is
    interrupted (sqlite3.OperationalError)."""
    plain, connection.text_factory = connection.text_factory, _Texts()
    try:
        with _known_names(connection), _time_limit(connection, limit_ms, abandoned):
            yield
    except sqlite3.DataError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
            raise
        raise TooLargeError(
            f"A value is longer than {MAX_VALUE_BYTES >> 20} MB. Ask for its beginning: substr(…)."
        ) from None
    finally:
        connection.text_factory = plain


def fetch(cursor: sqlite3.Cursor, max_rows: int | None) -> list[sqlite3.Row]:
    """Return all rows, or ``max_rows`` at most. Raises TooLargeError if they exceed ``MAX_RESULT_BYTES``.

    It is raised after the first row that exceeds the limit, without reading the others."""
    rows: list[sqlite3.Row] = []
    left = MAX_RESULT_BYTES
    for row in cursor:
        left -= sum(map(_size, row))
        if left < 0:
            rows.clear()  # the exception would keep them
            row = None
            raise TooLargeError(_TOO_LARGE)
        rows.append(row)
        if len(rows) == max_rows:
            break
    return rows


@contextmanager
def _known_names(connection: sqlite3.Connection) -> Iterator[None]:
    """Make unknown column names in double quotes an error until the end of the block.

    Otherwise SQLite takes them as texts: ``?modle=x`` would find nothing and ``?modle__not=x``
    everything, without an error. Datasette's own queries on the schema rely on that, so it is an error
    only in queries with input of a visitor."""
    connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)
    try:
        yield
    finally:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, True)


@contextmanager
def _time_limit(
    connection: sqlite3.Connection, limit_ms: float, abandoned: threading.Event
) -> Iterator[None]:
    # Looked up once: what is below is called thousands of times in a query.
    clock_s, is_abandoned = time.monotonic, abandoned.is_set
    end_s = clock_s() + limit_ms / 1000

    def is_over() -> bool:
        return is_abandoned() or clock_s() >= end_s

    connection.set_progress_handler(is_over, _CHECK_EVERY_STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, _CHECK_EVERY_STEPS)


class _Authorizer:
    """Decides for each action of SQL on a connection whether it is allowed: those for reading the file
    are."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        modules = connection.execute("select lower(name) from pragma_module_list").fetchall()
        # Those that SQLite makes when they are first asked for are pragmas, which are judged as such.
        self._refused_tables = {
            name for (name,) in modules if not name.startswith("pragma_")
        } - _TABLES_OF_MODULES

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        _db: str | None,
        _source: str | None,
    ) -> int:
        if action in _ACTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            return _verdict((first or "").lower() not in self._refused_tables)
        if action == sqlite3.SQLITE_UPDATE:
            # SQLite asks for it when it opens a full-text table. To update that table is an error in any
            # case.
            return _verdict(first == "sqlite_master")
        if action == sqlite3.SQLITE_PRAGMA:
            return _verdict((first or "").lower() in _PRAGMAS)
        if action == sqlite3.SQLITE_FUNCTION:
            return _verdict((second or "").lower() not in _REFUSED_FUNCTIONS)
        return sqlite3.SQLITE_DENY


def _verdict(allowed: bool) -> int:
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _size(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="replace"))
    return 8
