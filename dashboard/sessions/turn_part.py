"""The text of one turn of a session, for its unfolded line, rendered in a query process."""

from typing import Literal

from starlette.responses import HTMLResponse, Response

from dashboard import rendering
from dashboard.call.lookup import get_call
from dashboard.call.views import find_answer, open_asked, open_response
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import PRIVATE
from store.traces.calls.call_reader import CallReader

TEMPLATE = "session_turn.html"

type PartNames = Literal["asked", "said", "both"]


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the HTML of the message that a call answers, of its response with tool results, or of both.

    Tool results are taken from the next call of the conversation, if there is one. Raises HTTPException,
    sqlite3.Error and MissingPieceError."""
    usage_id = page.arguments["usage_id"]
    call = get_call(reader, usage_id)
    parts: PartNames = page.arguments["parts"]
    asked = None if parts == "said" else open_asked(call, reader, is_plain=page.is_plain)
    found = response = None
    if parts != "asked":
        found = find_answer(usage_id, reader, is_plain=page.is_plain)
        response = None if found else open_response(call, reader, is_plain=page.is_plain).response
    text = rendering.render_part(
        TEMPLATE,
        is_plain=page.is_plain,
        usage_id=usage_id,
        previous_id=call.predecessor_id,
        parts=parts,
        asked=asked,
        answer=found,
        response=response,
        has_response=call.response is not None,
    )
    return HTMLResponse(text, headers=PRIVATE)
