"""The page that compares two calls, rendered in a query process."""

from starlette.responses import Response

from dashboard.call.lookup import find_id, get_call
from dashboard.compare.comparison import compare_calls
from dashboard.queries.page_request import PageRequest
from store.traces.calls.call_reader import CallReader


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the page that compares two calls. Raises HTTPException, sqlite3.Error."""
    before, after = (
        get_call(reader, find_id(reader, page.arguments[each])) for each in ("first", "second")
    )
    return page.render(
        "compare.html",
        calls=(before, after),
        comparison=compare_calls(before, after, reader, is_plain=page.is_plain),
    )
