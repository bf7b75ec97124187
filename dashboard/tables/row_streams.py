"""All rows of a filtered list or a query as one download, in the memory of one page of rows.

JSON Lines has an object for each row. For Parquet a row is an array, and a header of the response has the
columns with their declared types: the web process has the file made of it (``dashboard.export``), because
that takes more memory than a query process may have.
"""

import base64
import json
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlencode

from dashboard.queries.protocol import COLUMNS_HEADER

FORMATS = ("jsonl", "parquet")
CONTENT_TYPE = "application/x-ndjson; charset=utf-8"
# Left out of a download's address: it has the whole list, whichever page of it was looked at.
_OF_PAGES = ("_next", "_size", "_facet", "_labels")
_WITHOUT_COUNTS = [("_nocount", "1"), ("_nofacet", "1"), ("_size", "max")]

type Page = dict[str, Any]


class RowStream:
    """A download that begins with a page that is read already. ``fetch`` returns the page at a place."""

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
        """Write every row. A page that cannot be read raises, so that the response is cut."""
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
    """Return the arguments of a download for those of its request."""
    given = parse_qsl(query_string, keep_blank_values=True)
    return urlencode([each for each in given if not _is_of_page(each[0])] + _WITHOUT_COUNTS)


def export_address(request: Any, kind: str) -> str:
    """Return the address of a download of the whole list or query that a page shows a part of."""
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


GLOBALS = {
    "export_address": export_address,
    "has_parquet": find_spec("pyarrow") is not None,
}
