"""Datasette's views with checked arguments, paging in both directions and downloads of all rows.

The view of tables and canned queries refuses arguments that Datasette would ignore, and pages by
``paging``.
"""

import inspect
import traceback
from types import CoroutineType
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dashboard.tables import paging, parameters, sums
from dashboard.tables.downloads import Exporting, with_query
from dashboard.tables.lean_datasette import (
    BadRequest,
    DatabaseView,
    Request,
    RowView,
    TableView,
    path_with_replaced_args,
    tilde_decode,
)

_NO_SEARCH = (
    "There is no full-text search here, so _search would find everything. To search the raw text of"
    " bodies use a condition: /traces/usage_log?request_body__contains=WORD or"
    " /traces/usage_log?response_body__contains=WORD."
)


class FileView(Exporting, DatabaseView):  # type: ignore[misc]
    """The view of ``/traces``, the list of tables, and of queries (``?sql=``)."""


class EntryView(Exporting, RowView):  # type: ignore[misc]
    """The view of ``/traces/<table>/<key>``."""


class TracesView(Exporting, TableView):  # type: ignore[misc]
    """The view of ``/traces/<table>`` and ``/traces/<query>``."""

    async def data(self, request: Request, *args: Any, **options: Any) -> Any:
        """Return the data of a page, for every format, as Datasette's method does."""
        try:
            return await self._find(request, *args, **options)
        except Exception as error:
            _release(error)
            raise

    async def _find(self, request: Request, *args: Any, **options: Any) -> Any:
        table = tilde_decode(request.url_vars["table"])
        query = await self.ds.get_canned_query("traces", table, request.actor)
        if query is not None:
            completed = _complete(request, query.get("parameters") or {})
            return await super().data(completed, *args, **options)
        if any(name.startswith("_search") for name in request.args):
            raise BadRequest(_NO_SEARCH)
        pks = await self.ds.get_database("traces").primary_keys(table)
        if not pks:
            page = await super().data(request, *args, **options)
            return self._add_links(page, request, None, self._find_previous_offset(request, table))
        return await self._page(request, table, pks, *args, **options)

    async def _page(
        self,
        request: Request,
        table: str,
        pks: list[str],
        default_labels: bool = False,
        _next: str | None = None,
        _size: str | None = None,
    ) -> Any:
        order = await paging.find_order(self.ds, request, table, pks)
        named = _next or request.args.get("_next")
        place = paging.parse_place(named, order, pks) if named else None
        file = paging.PagedFile(self.ds.get_database("traces"), table, pks, order, place)
        view = TableView(paging.OnePage(self.ds, file))
        page = await view.data(_without(request, "_next"), default_labels, None, _size)
        if isinstance(page, tuple):
            page[0]["query"] = file.query or page[0]["query"]
            await self._count_nulls(request, page[0], file)
            if table == sums.TABLE:
                page = (page[0], sums.extend(page[1], self.ds, request, file), *page[2:])
        return self._add_links(page, request, file.next, file.previous, order)

    async def _count_nulls(
        self, request: Request, data: dict[str, Any], file: paging.PagedFile
    ) -> None:
        """Add to each facet the number of rows without a value, such as failed calls without a model.

        Datasette leaves them out, so its counts would not add up to the list."""
        limit_ms = self.ds.setting("facet_time_limit_ms")
        for facet in data["facet_results"].values():
            if facet["type"] != "column":
                continue
            column = facet["name"]
            count = await file.count_nulls(column, limit_ms)
            if count == 0:
                continue
            condition = f"{column}__isnull"
            selected = condition in request.args
            toggled = {condition: None if selected else "1", "_next": None}
            path = self.ds.urls.path(path_with_replaced_args(request, toggled))
            facet["results"].append(
                {
                    "value": None,
                    "label": None,
                    "count": count,
                    "toggle_url": self.ds.absolute_url(request, path),
                    "selected": selected,
                }
            )

    def _add_links(
        self,
        page: Any,
        request: Request,
        following: str | None,
        previous: str | None,
        order: paging.Order | None = None,
    ) -> Any:
        """Add the addresses of the next, previous and first page. ``page`` may be a redirect."""
        if not isinstance(page, tuple):
            return page
        data = page[0]
        if order is not None:
            data["next"], data["next_url"] = following, self._link(request, following, order)
        data["previous"], data["previous_url"] = previous, self._link(request, previous, order)
        is_first = not request.args.get("_next")
        data["first_url"] = None if is_first else self._link(request, "", order)
        return page

    def _link(self, request: Request, place: str | None, order: paging.Order | None) -> str | None:
        """Return the address of the page at a place ("" for the first page), None without a place."""
        if place is None:
            return None
        changed: dict[str, str | None] = {"_next": place or None}
        if order is not None and order.is_sorted and place:
            changed["_sort_desc" if order.descending else "_sort"] = order.keys[0]
        path = self.ds.urls.path(path_with_replaced_args(request, changed))
        return str(self.ds.absolute_url(request, path))

    def _find_previous_offset(self, request: Request, table: str) -> str | None:
        """Return the ``_next`` of the previous page for a view without a key, whose pages are offsets."""
        named = request.args.get("_next")
        if not named:
            return None
        metadata = self.ds.table_metadata("traces", table)
        size = request.args.get("_size") or metadata.get("size") or self.ds.page_size
        count = self.ds.max_returned_rows if size == "max" else int(size)
        start = int(named) - count
        return str(start) if start > 0 else ""


def _release(error: Exception) -> None:
    """Close the coroutines and drop the rows that Datasette leaves behind if a page fails.

    The frames that have them refer to each other until a later garbage collection, which would warn of
    the coroutines."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in list(frame.f_locals.values()):
            for each in value if isinstance(value, list | tuple) else (value,):
                if (
                    isinstance(each, CoroutineType)
                    and inspect.getcoroutinestate(each) == inspect.CORO_CREATED
                ):
                    each.close()
    traceback.clear_frames(error.__traceback__)


def _complete(request: Request, declared: dict[str, Any]) -> Request:
    """Return the request with defaults for the query's missing parameters. Raises BadRequest."""
    given = parse_qsl(request.query_string, keep_blank_values=True)
    try:
        return _with_arguments(request, parameters.complete(declared, given))
    except parameters.InvalidParameterError as error:
        raise BadRequest(str(error)) from error


def _without(request: Request, name: str) -> Request:
    given = parse_qsl(request.query_string, keep_blank_values=True)
    return _with_arguments(request, [each for each in given if each[0] != name])


def _with_arguments(request: Request, arguments: list[tuple[str, str]]) -> Request:
    return with_query(request, urlencode(arguments))
