"""The page of the contents of one call's prompt, as a query process makes it."""

from datetime import datetime

from starlette.responses import Response

from conversations.cache_rules import read_own_rules
from conversations.context import Context, read_context
from conversations.prompt_bill import read_prompt_bill
from conversations.token_rules import read_token_rules
from dashboard import rendering
from dashboard.addresses import session_address
from dashboard.call.lookup import get_call
from dashboard.context import words
from dashboard.context.bar import WIDTH, find_colour, make_bar
from dashboard.context.sorting import sort_rows
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import PRIVATE
from store.traces.calls.call_reader import Call, CallReader
from store.traces.calls.threads import read_whole_request

MAX_BODY_BYTES = 8 * 1024 * 1024  # parsed in some 0.5 s
LARGEST = 20
MAX_NAMES = 200


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the page. Raises HTTPException, sqlite3.Error, MissingPieceError."""
    call = get_call(reader, page.arguments["usage_id"])
    context, sort = _read(call, reader), page.arguments["sort"]
    session_id = call.entry.session_id
    rows = [] if context is None else context.by_category()
    names = [] if context is None else context.by_name()
    servers = [] if context is None else context.by_server()
    return rendering.render(
        "context.html",
        visitor=page.caller,
        headers=PRIVATE,
        call=call,
        context=context,
        rows=sort_rows(rows, sort, words.TITLES),
        names=sort_rows(names, sort, words.TITLES)[:MAX_NAMES],
        name_count=len(names),
        servers=servers if any(row.name for row in servers) else [],
        largest=[] if context is None else context.largest(LARGEST),
        bar=make_bar(rows),
        bar_width=WIDTH,
        colour=find_colour,
        place=words.describe_place,
        address=words.make_address,
        titles=words.TITLES,
        singular=words.ONE,
        notes=words.NOTES,
        billed_as=words.PARTS,
        ratios=read_token_rules().bytes_per_token,
        session=session_id and session_address(session_id),
    )


def _read(call: Call, reader: CallReader) -> Context | None:
    """Return the context of a call, None where its request or its thread was not kept, or is too large."""
    if call.request is None or call.request.length > MAX_BODY_BYTES:
        return None
    entry = call.entry
    day = datetime.fromisoformat(entry.created_at).date()
    whole = read_whole_request(reader.connection, call.id)
    if whole is None or len(whole.body) > MAX_BODY_BYTES or whole.gap is not None:
        return None
    return read_context(
        whole.body,
        read_prompt_bill(entry),
        entry.model,
        read_own_rules().find(entry.model, day),
    )
