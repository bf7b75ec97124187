"""What SQL from a browser may do on a connection to a trace database: read it, within limits.

The file is opened read-only, and Datasette runs only what starts like a query. That leaves functions
and pragmas that tell about the server (its paths, its libraries), and ones that take memory in a
single step, which no time limit interrupts. The authorizer allows what reading takes and refuses
everything else.
"""

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dashboard.tables.intricacy import MAX_INTRICACY, measure_intricacy
from dashboard.tables.slow_functions import SlowFunctions

MAX_RESULT_BYTES = 16 << 20
# Nothing interrupts SQLite within one step, and a row is made whole before its size can be counted. So
# what bounds a query's memory is how long a value may be times how many there can be at once.
MAX_ROW_BYTES = 96 << 20
MAX_VALUE_BYTES = MAX_RESULT_BYTES
MAX_COLUMNS = 100
# Nor does anything interrupt it while it makes sense of a query, of which a few lines may mean millions
# (see intricacy). Should one get through, it ends at the memory for all connections of the process.
MAX_HEAP_BYTES = 512 << 20
_LIMITS = {
    sqlite3.SQLITE_LIMIT_VDBE_OP: 250_000,  # a list of values as long as a query takes three for each
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_COLUMN: MAX_COLUMNS,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 200,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
# Datasette describes tables with these; none tells where the file is.
_PRAGMAS = {
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_xinfo",
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
# A step that makes a value takes up to milliseconds, any other less than a microsecond.
_CHECK_EVERY_STEPS, _CHECK_EVERY_LONG_STEPS = 1_000, 100
_EXPLAINS = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b", re.IGNORECASE | re.DOTALL)
# Functions whose results are short.
_SHORT = {"abs", "avg", "count", "date", "datetime", "length", "percent_rank", "rank", "round"}
_SHORT |= {"dense_rank", "julianday", "ntile", "row_number", "sign", "sum", "time", "total"}
_MAX_REMEMBERED, _MAX_REMEMBERED_SQL = 200, 5_000
_MAKES_ONE = {"Cast", "Concat", "VColumn"}
_CALLS = {"AggStep", "AggStep1", "AggValue", "Function", "PureFunc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """How many values a query can make for one row, each as long as a value may be."""

    values: int
    makes_values: bool

    @property
    def max_value_bytes(self) -> int:
        return min(MAX_VALUE_BYTES, MAX_ROW_BYTES // max(self.values, 1))

    @property
    def check_every_steps(self) -> int:
        return _CHECK_EVERY_LONG_STEPS if self.makes_values else _CHECK_EVERY_STEPS


@dataclass(slots=True)
class Guard:
    """What goes with one connection, and has to be closed with it."""

    functions: SlowFunctions
    costs: dict[str, Cost] = field(default_factory=dict)

    def close(self) -> None:
        self.functions.close()


class TooLargeError(Exception):
    """The result is larger than a page may be, or a value longer than the query may have."""


class _Texts:
    """Counts what becomes text while a row is being made. In Python it takes up to four times the bytes."""

    def __init__(self) -> None:
        self.left = MAX_RESULT_BYTES

    def __call__(self, raw: bytes) -> str:
        self.left -= len(raw)
        if self.left < 0:
            raise TooLargeError(_TOO_LARGE)
        return raw.decode(errors="replace")


_TOO_LARGE = (
    f"The result is larger than {MAX_RESULT_BYTES >> 20} MB. Ask for fewer rows (_size=10), leave"
    " out the bodies (_nocol=request_body&_nocol=response_body), or ask the table usage."
)
_TOO_INTRICATE = (
    "The query uses its own parts within each other so often that too much would come of it. Use each"
    " fewer times."
)


def prepare(connection: sqlite3.Connection) -> Guard:
    """Call once for each connection, before any SQL of others runs on it."""
    connection.execute("pragma query_only = 1")
    connection.execute(f"pragma hard_heap_limit = {MAX_HEAP_BYTES}")
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    # Making these counts as a change of the schema, and they are made when first asked for.
    connection.execute("select 1 from json_each('[]'), json_tree('[]')").fetchall()
    guard = Guard(SlowFunctions(connection, MAX_VALUE_BYTES))
    connection.set_authorizer(_authorize)
    return guard


@contextmanager
def limits(
    connection: sqlite3.Connection,
    guard: Guard,
    sql: str,
    parameters: Any,
    limit_ms: float,
) -> Iterator[None]:
    """For the run of one query. Raises TooLargeError for a value that is too long; what takes too much
    time is interrupted (sqlite3.OperationalError)."""
    guard.functions.refusal = None
    cost = guard.costs.get(sql)
    if cost is None:
        cost = _estimate(connection, sql, parameters)
        _remember(guard.costs, sql, cost)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, cost.max_value_bytes)
    plain, connection.text_factory = connection.text_factory, _Texts()
    try:
        with _known_names(connection), _time_limit(connection, limit_ms, cost.check_every_steps):
            yield
    except sqlite3.OperationalError:
        if guard.functions.refusal is None:
            raise
        raise TooLargeError(guard.functions.refusal) from None
    except sqlite3.DataError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_TOOBIG:
            raise
        raise TooLargeError(
            f"A value is longer than {cost.max_value_bytes / 1e6:.1f} MB, the most there may be where"
            f" a query makes {cost.values} of them. Ask for fewer columns, or the beginning: substr(…)."
        ) from None
    finally:
        connection.text_factory = plain


def _remember(costs: dict[str, Cost], sql: str, cost: Cost) -> None:
    """A page asks a dozen questions, and nearly always the same."""
    if len(costs) >= _MAX_REMEMBERED:
        costs.clear()
    if len(sql) < _MAX_REMEMBERED_SQL:
        costs[sql] = cost


def fetch(cursor: sqlite3.Cursor, max_rows: int | None) -> list[sqlite3.Row]:
    """At most so many rows. Raises TooLargeError as soon as they are more bytes than allowed, with
    no more than one row of it read."""
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


def _estimate(connection: sqlite3.Connection, sql: str, parameters: Any) -> Cost:
    """By the program that SQLite makes of it. Columns of one table are no longer together than its
    row, which is a value itself; each that is read again counts once more.

    Raises TooLargeError, and sqlite3.Error as running it would."""
    if measure_intricacy(sql) > MAX_INTRICACY:
        raise TooLargeError(_TOO_INTRICATE)
    if _EXPLAINS.match(sql):
        return Cost(values=1, makes_values=False)
    values, makes_values = 0, False
    tables, columns = set[int](), set[tuple[int, int]]()
    for _, name, p1, p2, p3, p4, *_ in connection.execute(f"explain {sql}", parameters):
        if name in _CALLS and str(p4).partition("(")[0] in _SHORT:
            continue
        if name in _CALLS or name in _MAKES_ONE:
            values += 1
            makes_values = True
        elif name == "Copy":
            values += p3 + 1
        elif name == "SCopy":
            values += 1
        elif name == "Column":
            values += (p1 not in tables) or ((p1, p2) in columns)
            tables.add(p1)
            columns.add((p1, p2))
    return Cost(values=values, makes_values=makes_values)


@contextmanager
def _known_names(connection: sqlite3.Connection) -> Iterator[None]:
    """SQLite takes the quoted name of a column that is not there for a text: ``?modle=x`` would find
    nothing and ``?modle__not=x`` everything, and nobody would be told. Datasette's own questions about
    the schema rely on that, so it is off only for those that a visitor has a part in."""
    connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)
    try:
        yield
    finally:
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, True)


@contextmanager
def _time_limit(connection: sqlite3.Connection, limit_ms: float, every: int) -> Iterator[None]:
    end = time.monotonic() + limit_ms / 1000

    def is_over() -> bool:
        return time.monotonic() >= end

    connection.set_progress_handler(is_over, every)
    try:
        yield
    finally:
        connection.set_progress_handler(None, every)


def _authorize(
    action: int, first: str | None, second: str | None, _db: str | None, _source: str | None
) -> int:
    if action in _ACTIONS:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_PRAGMA:
        return _answer((first or "").lower() in _PRAGMAS)
    if action == sqlite3.SQLITE_FUNCTION:
        return _answer((second or "").lower() not in _REFUSED_FUNCTIONS)
    return sqlite3.SQLITE_DENY


def _answer(allowed: bool) -> int:
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _size(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode(errors="replace"))
    return 8
