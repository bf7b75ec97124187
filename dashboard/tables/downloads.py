"""Downloads of all rows of a filtered list or a query, using the memory of one page of rows.

CSV is made by Datasette, with its errors raised and cells neutralised that a spreadsheet would execute.
JSON Lines has an object for each row. For Parquet a row is sent as an array, and a header of the
response has the columns with their declared types: the web process has the file made
(``dashboard.export``), because that takes more memory than a query process may have.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dashboard.queries.protocol import COLUMNS_HEADER
from dashboard.tables.lean_datasette import (
    AsgiStream,
    BadRequest,
    DatasetteError,
    DataView,
    Request,
)
from runtime.csv_cells import neutralize

FORMATS = ("jsonl", "parquet")
CONTENT_TYPE = "application/x-ndjson; charset=utf-8"
# Left out of a download's address: it has the whole list, whichever page of it was looked at.
_OF_PAGES = ("_next", "_size", "_facet", "_labels")
_WITHOUT_COUNTS = [("_nocount", "1"), ("_nofacet", "1"), ("_size", "max")]

type Page = dict[str, Any]


class RowStream:
    """A download that begins with a page of rows that is read already. ``fetch`` returns the page at a
    place."""

    def __init__(
        self, kind: str, page: Page, fetch: Callable[[str], Awaitable[Page]], types: dict[str, str]
    ) -> None:
        self._kind = kind
        self._page = page
        self._fetch = fetch
        self._types = types

    @property
    def headers(self) -> dict[str, str]:
        name = self._page.get("table") or self._page.get("query_name") or "query"
        headers = {"content-disposition": f'attachment; filename="{name}.{self._kind}"'}
        if self._kind == "parquet":
            columns = [(name, self._types.get(name) or "") for name in self._page["columns"]]
            headers[COLUMNS_HEADER.decode()] = json.dumps(columns)
        return headers

    async def write(self, output: Any) -> None:
        """Write all rows. An error while reading a page is raised, so that the response is cut."""
        page = self._page
        await output.write(self._format(page))
        while page.get("next"):
            page = await self._fetch(page["next"])
            await output.write(self._format(page))

    def _format(self, page: Page) -> str:
        rows = ([_as_json(value) for value in row] for row in page["rows"])
        if self._kind == "parquet":
            return "".join(map(_make_line, rows))
        columns = page["columns"]
        return "".join(_make_line(dict(zip(columns, row, strict=True))) for row in rows)


def make_query_string(query_string: str) -> str:
    """Return the query string of a download: the given one without arguments of paging and counting."""
    given = parse_qsl(query_string, keep_blank_values=True)
    return urlencode([each for each in given if not _is_of_page(each[0])] + _WITHOUT_COUNTS)


def export_address(request: Any, kind: str) -> str:
    """Return the address to download the whole list or query, of which ``request`` shows one page."""
    given = parse_qsl(request.query_string, keep_blank_values=True)
    query = urlencode([each for each in given if not _is_of_page(each[0])])
    return f"{request.path}.{kind}{'?' if query else ''}{query}"


def _is_of_page(name: str) -> bool:
    return name in _OF_PAGES or name.startswith("_facet_")


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"$base64": True, "encoded": base64.b64encode(value).decode()}
    return value


def _make_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


class ParsedRequest(Request):  # type: ignore[misc]
    """A request whose arguments are parsed only once."""

    @cached_property
    def args(self) -> Any:
        return super().args


class Exporting(DataView):  # type: ignore[misc]
    """A view of Datasette that checks its arguments, and has downloads of all rows."""

    data: Any

    async def dispatch_request(self, request: Request) -> Any:
        """Return the response. Raises DatasetteError if Datasette cannot handle the arguments."""
        self.ds.check(request)
        return await super().dispatch_request(ParsedRequest(request.scope, request.receive))

    async def as_csv(self, request: Request, database: str) -> Any:
        """Return the rows as CSV; raise a query's error, for which Datasette returns an empty file.

        Cells that a spreadsheet would execute are neutralised unless ``_raw=1`` is given."""
        fetch, is_raw = self.data, request.args.get("_raw") == "1"

        async def data(*arguments: Any, **options: Any) -> Any:
            page = _require_rows(await fetch(*arguments, **options))
            if isinstance(page, tuple) and not is_raw:
                page[0].update(_neutralize_page(page[0]["columns"], page[0]["rows"]))
            return page

        self.data = data
        return await super().as_csv(request, database)

    async def get(self, request: Request) -> Any:
        """Return a download as JSON Lines or rows for Parquet, or Datasette's response for other formats."""
        kind = request.url_vars.get("format")
        if kind not in FORMATS:
            return await super().get(request)
        request = with_query(request, make_query_string(request.query_string))

        async def fetch(place: str | None) -> Any:
            page = _require_rows(await self.data(request, **({"_next": place} if place else {})))
            return page[0] if isinstance(page, tuple) else page

        page = await fetch(None)
        if not isinstance(page, dict):
            return page  # a redirect
        if "columns" not in page:
            raise BadRequest(f"Name a table (/traces/usage.{kind}), or a query (?sql=).")
        types = {}
        if page.get("table"):
            columns = await self.ds.get_database("traces").table_column_details(page["table"])
            types = {column.name: column.type for column in columns}
        stream = RowStream(kind, page, fetch, types)
        return AsgiStream(stream.write, headers=stream.headers, content_type=CONTENT_TYPE)


def with_query(request: Request, query: str) -> Request:
    """Return the request with ``query`` as its query string."""
    return ParsedRequest({**request.scope, "query_string": query.encode("ascii")}, request.receive)


def _require_rows(page: Any) -> Any:
    """Return the data of a page, or a redirect, unchanged. Raises DatasetteError for a query with an
    error."""
    if isinstance(page, tuple) and page[0].get("error"):
        raise DatasetteError(page[0]["error"], title="Invalid SQL", status=400)
    return page


class _CsvRow(dict[str, Any]):
    """A row as Datasette's CSV writer reads it: iterated by value, and indexed by the name of a column."""

    def __init__(self, columns: Sequence[str], values: Sequence[Any]) -> None:
        super().__init__(zip(columns, values, strict=True))
        self._values = values

    def __iter__(self) -> Any:
        return iter(self._values)


def _neutralize_page(columns: Sequence[str], rows: Sequence[Any]) -> dict[str, Any]:
    """Return columns and rows with an apostrophe before cells that a spreadsheet would execute."""
    return {
        "columns": [neutralize(column) for column in columns],
        "rows": [_neutralize_row(columns, row) for row in rows],
    }


def _neutralize_row(columns: Sequence[str], row: Any) -> Any:
    """Return the row with harmless cells; if it is harmless, as most are, the row itself."""
    values = list(row)
    harmless = [_neutralize_value(value) for value in values]
    return row if harmless == values else _CsvRow(columns, harmless)


def _neutralize_value(value: Any) -> Any:
    if isinstance(value, dict):  # a key, and the label of the row it leads to
        return {name: neutralize(each) for name, each in value.items()}
    return neutralize(value)


GLOBALS = {
    "export_address": export_address,
    "has_parquet": find_spec("pyarrow") is not None,
}
