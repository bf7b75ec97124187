"""The words of one turn of a session, for its unfolded line, as a query process makes them."""

from typing import Literal, NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from dashboard import rendering
from dashboard.call.conversation import Message
from dashboard.call.lookup import NO_CALL
from dashboard.call.views import open_asked, open_new, open_response
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import PRIVATE
from store.traces.calls import predecessors
from store.traces.calls.call_reader import CallReader

_ANSWER = "assistant"

type PartNames = Literal["asked", "said", "both"]


class _Answer(NamedTuple):
    """An answer, and the address of the body that it stands in."""

    message: Message
    address: str


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the markup of what a call was asked, of its response with results of tools, or of both.

    The results are in the next call of the conversation, if there is one. Raises HTTPException, sqlite3.Error
    and MissingPieceError."""
    usage_id = page.arguments["usage_id"]
    call = reader.find_call(usage_id)
    if call is None:
        raise HTTPException(404, NO_CALL)
    parts: PartNames = page.arguments["parts"]
    asked = None if parts == "said" else open_asked(call, reader, is_plain=page.is_plain)
    found = response = None
    if parts != "asked":
        found = _find_answer(usage_id, reader, is_plain=page.is_plain)
        response = None if found else open_response(call, reader, is_plain=page.is_plain).response
    text = rendering.render_part(
        "session_turn.html",
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


def _find_answer(usage_id: int, reader: CallReader, *, is_plain: bool) -> _Answer | None:
    """Return the answer of a call as the next one sent it back, with results, or None."""
    for next_id in predecessors.list_next(reader.connection, usage_id):
        call = reader.find_call(next_id)
        new = None if call is None else open_new(call, reader, is_plain=is_plain)
        messages = () if new is None else new.messages or ()
        answer = next((message for message in messages if message.role == _ANSWER), None)
        if new is not None and answer is not None:
            return _Answer(answer, new.address)
    return None
