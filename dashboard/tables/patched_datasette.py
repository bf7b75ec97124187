"""Datasette, with what it does beside its work turned off. Import it from here only."""

import gc
import sqlite3
import sys
import warnings
from typing import Any, NoReturn

from dashboard.tables.csv_pages import neutralize_page

with warnings.catch_warnings():
    # To find out what SQLite can, it opens connections and leaves them to the collector.
    warnings.simplefilter("ignore", ResourceWarning)
    import datasette.app
    import datasette.facets
    import datasette.handle_exception
    import datasette.utils.sqlite
    import datasette.views.base
    from datasette.app import Datasette, DatasetteRouter
    from datasette.database import Database, QueryInterrupted, Results
    from datasette.utils import (
        escape_sqlite,
        path_with_replaced_args,
        tilde_decode,
        tilde_encode,
        to_css_class,
    )
    from datasette.utils.asgi import BadRequest, Base400, Request, Response
    from datasette.views.base import DatasetteError, DataView
    from datasette.views.table import TableView

    gc.collect()  # some hang in cycles

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
    "escape_sqlite",
    "path_with_replaced_args",
    "tilde_decode",
    "tilde_encode",
    "to_css_class",
]

# With rich installed, it prints every local variable at each mistake in a query: bodies too.
datasette.handle_exception.rich = None
# It asks for each page. Every SQLite that Python 3.12 runs with has JSON.
datasette.facets.detect_json1 = lambda: True
datasette.utils.sqlite._cached_sqlite_version = sqlite3.sqlite_version_info


_parse_args = Request.args.fget


def _parse_args_once(request: Request) -> Any:
    """Datasette parses them each time that it looks at one of them, dozens of times for a page. Of a long
    query that took most of the time there was."""
    if getattr(request, "parsed_query_string", None) != request.query_string:
        request.parsed_args = _parse_args(request)
        request.parsed_query_string = request.query_string
    return request.parsed_args


Request.args = property(_parse_args_once)


class _Unfinished:
    """Stands for ``sys`` where CSV is streamed. A mistake in the middle would be printed here with the
    SQL of it, and written below the rows of an answer that then looks whole. It goes on instead."""

    @property
    def stderr(self) -> NoReturn:
        error = sys.exception()
        raise RuntimeError("asked for outside of an except block") if error is None else error


datasette.views.base.sys = _Unfinished()


class _Router(DatasetteRouter):  # type: ignore[misc]
    """Lets the Datasette that was asked check the arguments, and say what went wrong. A hook could
    do so too, but Datasette still makes its own page then, and prints every exception. A plain Datasette
    beside ours, as in the tests of the metadata file, has neither and goes on as it always did."""

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


async def _as_csv_or_mistake(view: DataView, request: Request, database: str) -> Any:
    """A query with a mistake in it is no CSV of nothing. What a spreadsheet would execute is neutralised
    unless ``_raw=1`` asks for the stored text."""
    ask, is_raw = view.data, request.args.get("_raw") == "1"

    async def data(*arguments: Any, **options: Any) -> Any:
        answer = await ask(*arguments, **options)
        if isinstance(answer, tuple) and answer[0].get("error"):
            raise DatasetteError(answer[0]["error"], title="Invalid SQL", status=400)
        if isinstance(answer, tuple) and not is_raw:
            answer[0].update(neutralize_page(answer[0]["columns"], answer[0]["rows"]))
        return answer

    view.data = data
    return await _as_csv(view, request, database)


DataView.as_csv = _as_csv_or_mistake
