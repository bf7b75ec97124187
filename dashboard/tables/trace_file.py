"""A trace database as Datasette reads it: over one connection, within limits."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dashboard.tables import errors, query_limits
from dashboard.tables.lean_datasette import (
    Datasette,
    DatasetteError,
    QueryInterrupted,
    Results,
)
from dashboard.tables.remembered_schema import RememberedSchema
from store import database

BUSY_TIMEOUT_S = 5.0
BRIEF_MS = 2.0  # for which a query may keep the event loop, which has no other request
_MAX_REMEMBERED = 500  # a visitor writes queries

# Of the file or the machine, whatever the query was.
_TROUBLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
}


class UnreadableError(Exception):
    """Raised if the database file cannot be read, whatever the query is."""


class TraceFile(RememberedSchema):
    """A trace database that is only read. One thread at a time uses its one connection."""

    def __init__(self, datasette: Datasette, path: Path) -> None:
        super().__init__(datasette, str(path), is_mutable=True)
        self._file = path
        self._connection: sqlite3.Connection | None = None
        self._using = threading.Lock()  # the connection
        self._slow: set[str] = set()  # queries that once took longer than BRIEF_MS

    def connect(self, write: bool = False) -> sqlite3.Connection:
        if write:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return database.open_readonly(self._file, busy_timeout_s=BUSY_TIMEOUT_S, any_thread=True)

    async def execute_write_fn(self, fn: object, block: bool = True) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    async def execute_fn[T](self, fn: Callable[[sqlite3.Connection], T]) -> T:
        def in_thread() -> T:
            with self._using:
                if self._connection is None:
                    self._connection = self._open()
                return fn(self._connection)

        return await asyncio.get_running_loop().run_in_executor(self.ds.executor, in_thread)

    async def execute(
        self,
        sql: str,
        params: Any = None,
        truncate: bool = False,
        custom_time_limit: int | None = None,
        page_size: int | None = None,
        log_sql_errors: bool = True,
    ) -> Results:
        """Run a query as Datasette does, with a limit of bytes, and without printing its SQL."""
        limit_ms = min(custom_time_limit or self.ds.sql_time_limit_ms, self.ds.sql_time_limit_ms)
        max_rows = self.ds.max_returned_rows if truncate else None
        if max_rows is not None and max_rows == (page_size or self.ds.page_size):
            max_rows += 1  # the page, and one row more if there is another page

        def run(connection: sqlite3.Connection, limit_ms: float) -> Results:
            cursor = connection.cursor()
            values = {} if params is None else params
            try:
                with query_limits.limits(connection, limit_ms, self.ds.abandoned):
                    cursor.execute(sql, values)
                    rows = query_limits.fetch(cursor, None if max_rows is None else max_rows + 1)
                    description = cursor.description
            except query_limits.TooLargeError as error:
                raise DatasetteError(str(error), title="Too large", status=400) from None
            except MemoryError:
                raise DatasetteError(errors.OUT_OF_MEMORY, title="Too large", status=400) from None
            except sqlite3.Error as error:
                raise _translate(error, sql, params) from error
            finally:
                cursor.close()  # a read transaction left open would keep the WAL from shrinking
            is_truncated = max_rows is not None and len(rows) > max_rows
            return Results(rows[:max_rows], is_truncated, description)

        if limit_ms > BRIEF_MS and (found := self._execute_briefly(sql, run)) is not None:
            return found
        return await self.execute_fn(lambda connection: run(connection, limit_ms))

    def _execute_briefly(
        self, sql: str, run: Callable[[sqlite3.Connection, float], Results]
    ) -> Results | None:
        """Run a query on the event loop for up to ``BRIEF_MS``; return None if it takes longer.

        Most do not, and handing a query to the thread takes longer. A query that was too slow once is
        not tried again."""
        if self._connection is None or sql in self._slow or not self._using.acquire(blocking=False):
            return None
        try:
            return run(self._connection, BRIEF_MS)
        except QueryInterrupted:
            if len(self._slow) >= _MAX_REMEMBERED:
                self._slow.clear()
            self._slow.add(sql)
            return None
        finally:
            self._using.release()

    async def primary_keys(self, table: str) -> list[str]:
        """Return the primary keys of a table; for the view ``usage_log`` those of ``usage``.

        Datasette links every BLOB by the key of its row, and fails without one."""
        if table == "usage_log":
            return ["id"]
        keys: list[str] = await super().primary_keys(table)
        return keys

    async def get_all_foreign_keys(self) -> dict[str, Any]:
        """Return the foreign keys, with an empty entry for the view, which Datasette looks up for a row."""
        keys: dict[str, Any] = await super().get_all_foreign_keys()
        return {"usage_log": {"incoming": [], "outgoing": []}, **keys}

    async def attached_databases(self) -> list[object]:
        return []

    @property
    def size(self) -> int:
        try:
            return Path(self.path).stat().st_size
        except OSError:  # deleted meanwhile; the message would tell the path
            return 0

    def close(self) -> None:
        """Close the connection. Call it in the thread that reads."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        connection = self.connect()
        try:
            self.ds._prepare_connection(connection, self.name)
            query_limits.prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _translate(error: sqlite3.Error, sql: str, params: object) -> Exception:
    """Return the exception that makes Datasette report an error of SQLite correctly.

    Datasette reports every OperationalError as an error in the query, even if the file cannot be read."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        interrupted: Exception = QueryInterrupted(error, sql, params)
        return interrupted
    if code in _TROUBLE:
        return UnreadableError(*error.args)
    if isinstance(error, sqlite3.OperationalError):
        return error
    return sqlite3.OperationalError(*error.args)
