"""One Datasette for each organisation, over that organisation's file alone.

What one organisation may see is then decided once, by which instance answers, and not by each of
Datasette's pages and hooks. The database is called ``traces`` in all of them.

Datasette 0.65 keeps connections by database name in a variable of the thread, so with a shared
thread one organisation would read another's file (datasette #2465). Here an instance has a thread
of its own and keeps its one connection itself. Closing is queued behind whatever that thread still
does, so no connection is closed under a query.
"""

import asyncio
import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader
from starlette.types import ASGIApp

from dashboard import formats, guards
from dashboard.patched_datasette import (
    Database,
    Datasette,
    DatasetteError,
    QueryInterrupted,
    Results,
)
from store.traces import trace_path

HERE = Path(__file__).parent
METADATA_PATH = HERE.parent / "datasette-metadata.json"
MAX_OPEN = 16
MAX_WAITING = 16  # requests of one organisation at once: its thread does one query at a time
SETTINGS = {
    "allow_download": False,
    "default_page_size": 50,
    "facet_time_limit_ms": 1000,
    "max_csv_mb": 100,
    "max_returned_rows": 250,
    "num_sql_threads": 1,
    "sql_time_limit_ms": 3000,
    "suggest_facets": False,
    "template_debug": False,
    "trace_debug": False,
}

type FileId = tuple[int, int]


class BusyError(Exception):
    """The organisation asks for more at once than its instance takes."""


class TraceFile(Database):
    """A database that is only read, by one thread, with one connection."""

    def __init__(self, datasette: Datasette, path: Path) -> None:
        super().__init__(datasette, str(path), is_mutable=True)
        self._uri = f"{path.absolute().as_uri()}?mode=ro"
        self._connection: sqlite3.Connection | None = None

    def connect(self, write: bool = False) -> sqlite3.Connection:
        if write:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return sqlite3.connect(self._uri, uri=True, check_same_thread=False)

    async def execute_write_fn(self, fn: object, block: bool = True) -> None:
        raise sqlite3.OperationalError("attempt to write a readonly database")

    async def execute_fn[T](self, fn: Callable[[sqlite3.Connection], T]) -> T:
        def in_thread() -> T:
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
        """As Datasette's own, with a budget of bytes, and without printing anybody's SQL."""
        limit_ms = min(custom_time_limit or self.ds.sql_time_limit_ms, self.ds.sql_time_limit_ms)
        max_rows = self.ds.max_returned_rows if truncate else None
        if max_rows is not None and max_rows == (page_size or self.ds.page_size):
            max_rows += 1  # the page, and one that says there is more

        def run(connection: sqlite3.Connection) -> Results:
            cursor = connection.cursor()
            try:
                with guards.time_limit(connection, limit_ms):
                    cursor.execute(sql, {} if params is None else params)
                    rows = guards.fetch(cursor, None if max_rows is None else max_rows + 1)
                    description = cursor.description
            except guards.TooLargeError as error:
                raise DatasetteError(str(error), title="Too large", status=400) from error
            except sqlite3.DatabaseError as error:
                raise _translate(error, sql, params) from error
            finally:
                cursor.close()  # a read transaction left open would keep the WAL from shrinking
            is_truncated = max_rows is not None and len(rows) > max_rows
            return Results(rows[:max_rows], is_truncated, description)

        return await self.execute_fn(run)

    async def attached_databases(self) -> list[object]:
        return []

    @property
    def size(self) -> int:
        try:
            return Path(self.path).stat().st_size
        except OSError:  # deleted meanwhile; the message would tell the path
            return 0

    def close(self) -> None:
        """In the thread that reads."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        connection = self.connect()
        try:
            self.ds._prepare_connection(connection, self.name)
            guards.prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _translate(error: sqlite3.DatabaseError, sql: str, params: object) -> Exception:
    """Datasette shows an OperationalError as a mistake in the query."""
    if error.args == ("interrupted",):
        interrupted: Exception = QueryInterrupted(error, sql, params)
        return interrupted
    if isinstance(error, sqlite3.OperationalError):
        return error
    return sqlite3.OperationalError(*error.args)


class TraceBrowser(Datasette):
    def __init__(self, path: Path) -> None:
        super().__init__(
            metadata=json.loads(METADATA_PATH.read_text()),
            settings=SETTINGS,
            template_dir=str(HERE / "datasette"),
        )
        formats.add_filters(self.jinja_env)
        self.jinja_env.loader.loaders.append(FileSystemLoader(HERE / "templates"))  # for _top.html
        self.databases: OrderedDict[str, Database] = (
            OrderedDict()
        )  # without _memory, and _internal with its writing thread
        self.file = self.add_database(TraceFile(self, path), name="traces")

    async def refresh_schemas(self) -> None:
        """It keeps the tables of ``_internal``, which we do not have."""


@dataclass(slots=True, kw_only=True)
class Instance:
    browser: TraceBrowser
    app: ASGIApp
    file_id: FileId
    users: int = 0
    is_retired: bool = False

    def close(self) -> None:
        executor = self.browser.executor
        executor.submit(self.browser.file.close)
        executor.shutdown(wait=False)


@dataclass(slots=True)
class Instances:
    """Those used last stay open. All methods are for the event loop's thread."""

    data_dir: Path
    max_open: int = MAX_OPEN
    _open: OrderedDict[str, Instance] = field(default_factory=OrderedDict)

    @contextmanager
    def use(self, organization_id: str) -> Iterator[ASGIApp | None]:
        """Its Datasette, which stays open until the end of the block; None when nothing has been
        recorded. Raises BusyError."""
        instance = self._find(organization_id)
        if instance is None:
            yield None
            return
        if instance.users >= MAX_WAITING:
            raise BusyError
        instance.users += 1
        try:
            yield instance.app
        finally:
            instance.users -= 1
            if instance.is_retired and not instance.users:
                instance.close()
            self._shrink()

    def close(self) -> None:
        for organization_id in list(self._open):
            self._retire(organization_id)

    def __len__(self) -> int:
        return len(self._open)

    def _find(self, organization_id: str) -> Instance | None:
        path = trace_path(self.data_dir, organization_id)
        file_id = _identify(path)
        instance = self._open.get(organization_id)
        if instance is not None and instance.file_id != file_id:
            self._retire(organization_id)
            instance = None
        if file_id is None:
            return None
        if instance is None:
            browser = TraceBrowser(path)
            instance = Instance(browser=browser, app=browser.app(), file_id=file_id)
            self._open[organization_id] = instance
        self._open.move_to_end(organization_id)
        return instance

    def _shrink(self) -> None:
        """Close the ones not used for longest. Those in use stay, even if they are too many: their
        number is that of the organisations being answered right now."""
        surplus = len(self._open) - self.max_open
        idle = [key for key, instance in self._open.items() if not instance.users]
        for organization_id in idle[: max(surplus, 0)]:
            self._retire(organization_id)

    def _retire(self, organization_id: str) -> None:
        instance = self._open.pop(organization_id)
        instance.is_retired = True
        if not instance.users:
            instance.close()


def _identify(path: Path) -> FileId | None:
    """A file that was replaced is another file, even under the same name."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
