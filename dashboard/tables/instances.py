"""One Datasette for each organisation, over the trace database of that organisation alone.

So access is decided once, by the choice of the instance, and not by each of Datasette's pages and
hooks. The database is called ``traces`` in all of them.

Datasette 0.65 keeps connections by database name in a variable of the thread, so with a shared
thread one organisation would read another's file (datasette #2465). Here an instance has a thread
of its own and keeps its one connection itself. Closing is queued behind whatever that thread still
does, so no connection is closed under a query.
"""

import asyncio
import json
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from starlette.types import ASGIApp

from dashboard import formats
from dashboard.addresses import raw_path
from dashboard.queries.protocol import MAX_OPEN
from dashboard.tables import arguments, cells, errors, filter_words, query_limits
from dashboard.tables.errors import RequestState
from dashboard.tables.metadata import METADATA_PATH
from dashboard.tables.patched_datasette import (
    BadRequest,
    Database,
    Datasette,
    DatasetteError,
    QueryInterrupted,
    Request,
    Response,
    Results,
    TableView,
)
from dashboard.tables.views import TracesView
from store import database
from store.traces.paths import trace_path_in

HERE = Path(__file__).parent
BUSY_TIMEOUT_S = 5.0
SETTINGS = {
    "allow_download": False,
    "default_page_size": 50,
    "facet_time_limit_ms": 1000,
    "max_csv_mb": 1000,  # a million calls without their bodies are 260
    "max_returned_rows": 250,
    "num_sql_threads": 1,
    "sql_time_limit_ms": 3000,
    "suggest_facets": False,
    "template_debug": False,
    "trace_debug": False,
}

# Of the file or the machine, whatever the query was.
_TROUBLE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
}

type FileId = tuple[int, int]


class UnreadableError(Exception):
    """The file cannot be read, whatever the query is."""


class TraceFile(Database):
    """A trace database that is only read, by one thread, with one connection."""

    def __init__(self, datasette: Datasette, path: Path) -> None:
        super().__init__(datasette, str(path), is_mutable=True)
        self._file = path
        self._connection: sqlite3.Connection | None = None

    def connect(self, write: bool = False) -> sqlite3.Connection:
        if write:
            raise sqlite3.OperationalError("attempt to write a readonly database")
        return database.open_readonly(self._file, busy_timeout_s=BUSY_TIMEOUT_S, any_thread=True)

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
        """Do as Datasette's own does, with a budget of bytes, and without printing anybody's SQL."""
        limit_ms = min(custom_time_limit or self.ds.sql_time_limit_ms, self.ds.sql_time_limit_ms)
        max_rows = self.ds.max_returned_rows if truncate else None
        if max_rows is not None and max_rows == (page_size or self.ds.page_size):
            max_rows += 1  # the page, and one row more if there is another page

        def run(connection: sqlite3.Connection) -> Results:
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

        return await self.execute_fn(run)

    async def primary_keys(self, table: str) -> list[str]:
        """Return those of the view too: Datasette links every BLOB by its row's key, and fails without."""
        if table == "usage_log":
            return ["id"]
        keys: list[str] = await super().primary_keys(table)
        return keys

    async def get_all_foreign_keys(self) -> dict[str, Any]:
        """Return an entry for the view too, which has none: Datasette looks it up for the page of a row."""
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
        """Close the connection; call it in the thread that reads."""
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
    """Return the exception that Datasette handles correctly. It reports every OperationalError as
    an error in the query, also of a file that cannot be read."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_INTERRUPT:
        interrupted: Exception = QueryInterrupted(error, sql, params)
        return interrupted
    if code in _TROUBLE:
        return UnreadableError(*error.args)
    if isinstance(error, sqlite3.OperationalError):
        return error
    return sqlite3.OperationalError(*error.args)


def _share_templates(own: Environment) -> Environment:
    """Return one environment for all instances: compiling the templates takes most of the time of a first page, and a
    megabyte each time. Nothing of an instance is in it; what a page shows comes with the page."""
    if not _shared_templates:
        formats.add_filters(own)
        ours = FileSystemLoader(HERE.parent / "templates")  # for _top.html
        own.loader = ChoiceLoader([*filter(None, [own.loader]), ours])
        own.globals.update(cells.GLOBALS | filter_words.GLOBALS)
        _shared_templates.append(own)
    return _shared_templates[0]


_shared_templates: list[Environment] = []


class TraceBrowser(Datasette):
    """A Datasette over one file, called ``traces``, and nothing else. It stops computing when
    ``abandoned`` is set."""

    def __init__(self, path: Path, abandoned: threading.Event) -> None:
        super().__init__(
            metadata=json.loads(METADATA_PATH.read_text()),
            settings=SETTINGS,
            template_dir=str(HERE / "templates"),
        )
        self.jinja_env: Environment = _share_templates(self.jinja_env)
        self.databases: OrderedDict[str, Database] = (
            OrderedDict()
        )  # without _memory, and _internal with its writing thread
        self.abandoned = abandoned
        self.file = self.add_database(TraceFile(self, path), name="traces")
        render, can_render = self.renderers["blob"]
        self.renderers["blob"] = (_only_bodies(render), can_render)

    @classmethod
    def load_templates(cls) -> None:
        """Compile all templates, which every instance of this process then shares."""
        environment = cls(Path(os.devnull), threading.Event()).jinja_env
        for name in environment.list_templates(["html"]):
            environment.get_template(name)

    def _routes(self) -> list[tuple[Any, Any]]:
        return [
            (pattern, TracesView.as_view(self))
            if getattr(view, "view_class", None) is TableView
            else (pattern, view)
            for pattern, view in super()._routes()
        ]

    async def refresh_schemas(self) -> None:
        """Do nothing: the tables of ``_internal`` that it updates do not exist here."""

    def check(self, request: Request) -> None:
        """Check a request before anything is read. Raises DatasetteError for arguments that
        Datasette cannot handle."""
        given = parse_qsl(request.query_string, keep_blank_values=True)
        error = arguments.find_error(raw_path(request.scope), given)
        if error is not None:
            raise DatasetteError(error, title="Invalid request", status=400)

    async def explain(self, request: Request, exception: Exception) -> Response:
        """Return the response for an error: a page for people, JSON for programs."""
        error = errors.describe(exception, request)
        state: RequestState = request.scope["taximeter"]
        state.is_explained = True
        if state.is_for_program:
            return Response.json(error.as_json(), status=error.status)
        context = {"error": error}
        page = await self.render_template("error.html", context, request, "error")
        return Response.html(page, status=error.status)


def _only_bodies(render: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    """Return the renderer of downloads, limited to text and BLOBs. Datasette notices a number only
    after the response has begun."""

    @wraps(render)  # by whose signature Datasette decides what to hand over
    async def render_bodies(*given: Any) -> Response:
        response = await render(*given)
        if not isinstance(response.body, bytes | str):
            raise BadRequest("This column holds nothing that can be downloaded.")
        return response

    return render_bodies


@dataclass(slots=True, kw_only=True)
class Instance:
    browser: TraceBrowser
    app: ASGIApp
    file_id: FileId
    users: int = 0
    is_retired: bool = False

    def close(self) -> None:
        # What nothing refers to any more gives back its thread's stack; the browser lives on until the
        # collector finds it, and eight megabytes of addresses for each would be more than there are.
        executor, self.browser.executor = self.browser.executor, None
        executor.submit(self.browser.file.close)
        # Not waited for, an ended thread keeps the address space of its stack until it is collected.
        executor.shutdown(wait=True)


@dataclass(slots=True)
class Instances:
    """The instances that were used last, which stay open. All methods are for the thread of the
    event loop."""

    traces: Path
    abandoned: threading.Event = field(default_factory=threading.Event)
    max_open: int = MAX_OPEN
    _open: OrderedDict[str, Instance] = field(default_factory=OrderedDict)

    @contextmanager
    def use(self, organization_id: str) -> Iterator[ASGIApp | None]:
        """Keep its Datasette open until the end of the block; None when nothing has been recorded."""
        instance = self._find(organization_id)
        if instance is None:
            yield None
            return
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
        path = trace_path_in(self.traces, organization_id)
        file_id = _identify(path)
        instance = self._open.get(organization_id)
        if instance is not None and instance.file_id != file_id:
            self._retire(organization_id)
            instance = None
        if file_id is None:
            return None
        if instance is None:
            browser = TraceBrowser(path, self.abandoned)
            instance = Instance(browser=browser, app=browser.app(), file_id=file_id)
            self._open[organization_id] = instance
        self._open.move_to_end(organization_id)
        return instance

    def _shrink(self) -> None:
        """Close the ones not used for longest. Those in use stay, even if they are too many: their
        number is that of the organisations with a request in progress."""
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
    """Return which file it is: one that was replaced is another, even under the same name."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
