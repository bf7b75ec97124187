"""Datasette with patches. Import it from here only."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NoReturn

from dashboard.tables import row_streams
from dashboard.tables.csv_pages import neutralize_page

# Datasette has units for columns, and reads the definitions of all there are when it is imported: a
# quarter of that time. Our metadata names no unit.
sys.modules["datasette.vendored.pint"] = SimpleNamespace(UnitRegistry=lambda: None)  # type: ignore[assignment]


@contextmanager
def _closing_connections() -> Iterator[None]:
    """Close the connections that are opened meanwhile."""
    connect = sqlite3.connect
    opened: list[sqlite3.Connection] = []

    def keep_connection(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    sqlite3.connect = keep_connection  # type: ignore[assignment]
    try:
        yield
    finally:
        sqlite3.connect = connect
        for connection in opened:
            connection.close()


# To find out what SQLite can, it opens connections and leaves them to the collector of garbage, which would
# take a seventh of the start of a query process to find them.
with _closing_connections():
    import datasette.app
    import datasette.facets
    import datasette.handle_exception
    import datasette.utils.sqlite
    import datasette.views.base
    import datasette.views.database
    import datasette.views.row
    import datasette.views.table
    from datasette.app import Datasette, DatasetteRouter
    from datasette.database import Database, QueryInterrupted, Results
    from datasette.utils import (
        escape_sqlite,
        format_bytes,
        is_url,
        path_from_row_pks,
        path_with_replaced_args,
        tilde_decode,
        tilde_encode,
        to_css_class,
        truncate_url,
    )
    from datasette.utils.asgi import AsgiStream, BadRequest, Base400, Request, Response
    from datasette.views.base import DatasetteError, DataView
    from datasette.views.table import TableView, display_columns_and_rows

__all__ = [
    "BadRequest",
    "Base400",
    "Database",
    "Datasette",
    "DatasetteError",
    "QueryInterrupted",
    "Request",
    "Response",
    "Results",
    "TableView",
    "display_columns_and_rows",
    "escape_sqlite",
    "format_bytes",
    "is_url",
    "path_from_row_pks",
    "path_with_replaced_args",
    "replace_display",
    "tilde_decode",
    "tilde_encode",
    "to_css_class",
    "truncate_url",
]

# With rich installed, it prints every local variable at each error in a query: bodies too.
datasette.handle_exception.rich = None
# It is looked up for each page. Every SQLite that Python 3.12 runs with has JSON.
datasette.facets.detect_json1 = lambda: True
datasette.utils.sqlite._cached_sqlite_version = sqlite3.sqlite_version_info


def _without_tokens(app: Any, **_options: Any) -> Any:
    """Return the application without tokens for forms, of which Datasette signs one for each page.
    The web process forwards nothing but GET and HEAD."""

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "csrftoken": str}, receive, send)  # templates call it: there is none

    return respond


datasette.app.asgi_csrf = SimpleNamespace(asgi_csrf=_without_tokens)


def replace_display(display: Any) -> None:
    """Have another function in place of ``display_columns_and_rows``."""
    datasette.views.row.display_columns_and_rows = display
    datasette.views.table.display_columns_and_rows = display


class _HooksWithoutCells:
    """The hooks of Datasette's plugins without that for a cell, which nobody implements. Calling it
    takes longer than everything else that is done for a cell, and a page has thousands."""

    def __init__(self, hooks: Any) -> None:
        self._hooks = hooks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hooks, name)

    def render_cell(self, **_cell: object) -> tuple[()]:
        return ()


datasette.views.database.pm = SimpleNamespace(
    hook=_HooksWithoutCells(datasette.views.database.pm.hook)
)


_parse_args = Request.args.fget


def _parse_args_once(request: Request) -> Any:
    """Parse the arguments of a request once. Datasette parses them each time that it looks at one
    of them, dozens of times for a page. Of a long query that took most of the time there was."""
    if getattr(request, "parsed_query_string", None) != request.query_string:
        request.parsed_args = _parse_args(request)
        request.parsed_query_string = request.query_string
    return request.parsed_args


Request.args = property(_parse_args_once)


class _Unfinished:
    """A stand-in for ``sys`` where CSV is streamed. Datasette would print an error in the middle
    with its SQL, and write it below the rows of a response that then looks complete. It is
    raised instead."""

    @property
    def stderr(self) -> NoReturn:
        error = sys.exception()
        raise RuntimeError("used outside of an except block") if error is None else error


datasette.views.base.sys = _Unfinished()


class _Router(DatasetteRouter):  # type: ignore[misc]
    """A router that lets our instances check arguments and render errors. A plugin hook could do so
    too, but Datasette still renders its own page then, and prints every exception. A plain
    Datasette beside ours, as in the tests of the metadata file, has neither ``check`` nor
    ``explain`` and works as usual."""

    async def route_path(self, scope: Any, receive: Any, send: Any, path: str) -> Any:
        check = getattr(self.ds, "check", None)
        request = Request(scope, receive)
        try:
            if check is not None:
                check(request)
        except DatasetteError as error:
            return await self.handle_exception(request, send, error)
        return await super().route_path(scope, receive, send, path)

    async def handle_exception(self, request: Request, send: Any, exception: Exception) -> None:
        explain = getattr(self.ds, "explain", None)
        if explain is None:
            await super().handle_exception(request, send, exception)
            return
        response = await explain(request, exception)
        await response.asgi_send(send)


datasette.app.DatasetteRouter = _Router


_as_csv = DataView.as_csv


async def _as_csv_or_error(view: DataView, request: Request, database: str) -> Any:
    """Return CSV, or raise the error of a query, of which Datasette makes CSV without rows. Cells
    that a spreadsheet would execute are neutralised unless ``_raw=1`` is given."""
    fetch, is_raw = view.data, request.args.get("_raw") == "1"

    async def data(*arguments: Any, **options: Any) -> Any:
        page = await fetch(*arguments, **options)
        if isinstance(page, tuple) and page[0].get("error"):
            raise DatasetteError(page[0]["error"], title="Invalid SQL", status=400)
        if isinstance(page, tuple) and not is_raw:
            page[0].update(neutralize_page(page[0]["columns"], page[0]["rows"]))
        return page

    view.data = data
    return await _as_csv(view, request, database)


DataView.as_csv = _as_csv_or_error


_get = DataView.get


async def _get_or_stream(view: DataView, request: Request) -> Any:
    """Return a download of all rows for the formats that are ours, and Datasette's response for others."""
    kind = request.url_vars.get("format")
    if kind not in row_streams.FORMATS:
        return await _get(view, request)
    query = row_streams.make_query_string(request.query_string)
    request = Request({**request.scope, "query_string": query.encode("ascii")}, request.receive)

    async def fetch(place: str | None) -> Any:
        page = await view.data(request, **({"_next": place} if place else {}))
        if isinstance(page, tuple) and page[0].get("error"):
            raise DatasetteError(page[0]["error"], title="Invalid SQL", status=400)
        return page[0] if isinstance(page, tuple) else page

    page = await fetch(None)
    if not isinstance(page, dict):
        return page  # a redirect
    if "columns" not in page:
        raise BadRequest(f"Name a table (/traces/usage.{kind}), or a query (?sql=).")
    types = {}
    if page.get("table"):
        columns = await view.ds.get_database("traces").table_column_details(page["table"])
        types = {column.name: column.type for column in columns}
    stream = row_streams.RowStream(kind, page, fetch, types)
    return AsgiStream(stream.write, headers=stream.headers, content_type=row_streams.CONTENT_TYPE)


DataView.get = _get_or_stream
