"""The page of the contents of one call's prompt, rendered in a query process."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from starlette.responses import Response

from conversations.context import Row
from conversations.token_rules import read_token_rules
from dashboard.addresses import session_address
from dashboard.call.filling import read_context_of
from dashboard.call.lookup import get_call
from dashboard.context import words
from dashboard.drawing import Stretch, lay_out
from dashboard.queries.page_request import PageRequest
from store.traces.calls.call_reader import CallReader

MAX_BODY_BYTES = 8 * 1024 * 1024  # parsed in some 0.5 s
LARGEST = 20
MAX_NAMES = 200
# What the address names as the order of the rows: ``?sort=bytes``.
_KEYS: Mapping[str, Callable[[Row], Any]] = {
    "tokens": lambda row: -row.tokens,
    "bytes": lambda row: -row.size,
    "read": lambda row: -row.cached,
    "written": lambda row: -row.written,
    "uncached": lambda row: -row.parts["uncached"],
    "cost": lambda row: -(row.cents or Decimal(0)),
}


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the page of the contents of a call's prompt. Raises HTTPException, sqlite3.Error,
    MissingPieceError."""
    call = get_call(reader, page.arguments["usage_id"])
    context, sort = read_context_of(call, reader, MAX_BODY_BYTES), page.arguments["sort"]
    session_id = call.entry.session_id
    rows = [] if context is None else context.by_category()
    names = [] if context is None else context.by_name()
    servers = [] if context is None else context.by_server()
    return page.render(
        "context.html",
        call=call,
        context=context,
        rows=_sort(rows, sort),
        names=_sort(names, sort)[:MAX_NAMES],
        name_count=len(names),
        servers=servers if any(row.name for row in servers) else [],
        largest=[] if context is None else context.largest(LARGEST),
        bar=_make_bar(rows),
        colour=words.find_colour,
        place=words.describe_place,
        address=words.make_address,
        titles=words.TITLES,
        singular=words.ONE,
        notes=words.NOTES,
        billed_as=words.PARTS,
        ratios=read_token_rules().bytes_per_token,
        session=session_id and session_address(session_id),
    )


def _sort(rows: Sequence[Row], sort: str) -> list[Row]:
    """Return the rows in the order of a column, the largest first, or by name. An unknown column changes
    nothing."""
    if sort == "name":
        return sorted(rows, key=lambda row: (words.TITLES[row.category], row.name or ""))
    key = _KEYS.get(sort)
    return list(rows) if key is None else sorted(rows, key=key)


def _make_bar(rows: Sequence[Row]) -> list[tuple[Row, Stretch]]:
    """Return the rows with their places in a bar, by tokens, or by bytes if tokens are unknown."""
    shown = [row for row in rows if row.tokens] or [row for row in rows if row.size]
    sizes = [row.tokens or row.size for row in shown]
    return list(zip(shown, lay_out(sizes, sum(sizes)), strict=True))
