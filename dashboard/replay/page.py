"""The page that sends a call again and the checks of its request, made in a query process."""

from starlette.responses import JSONResponse, Response

from dashboard.call.addresses import body_address
from dashboard.call.bodies import read_text
from dashboard.call.lookup import get_call
from dashboard.call.response import MessageResponse, parse_response
from dashboard.queries.page_request import PageRequest
from dashboard.rendering import PRIVATE
from dashboard.replay.checks import check_request
from dashboard.replay.editing import MAX_EDITED_BYTES, lay_out
from dashboard.replay.snippets import USUAL_VERSION
from metering.formats import format_bytes
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import Call, CallReader
from store.traces.calls.threads import read_whole_request
from wire.json_reading import parse_object

MAX_RESPONSE_BYTES = 4 << 20
MAX_RESPONSE_CHARS = 100_000
_EMPTY = b'{"model": "", "max_tokens": 1024, "messages": [{"role": "user", "content": ""}]}'


def render(page: PageRequest, reader: CallReader) -> Response:
    """Return the page that sends a call again. Raises HTTPException, sqlite3.Error."""
    call = get_call(reader, page.arguments["usage_id"])
    body = _read_request(call, reader)
    return page.render(
        "replay.html",
        call=call,
        endpoints=page.arguments["endpoints"],
        vendor=page.vendor,
        version=call.entry.api_version or USUAL_VERSION,
        request_text=None if body is None else _lay_out(body),
        request_size=format_bytes(call.request.length if call.request else None),
        is_recorded=call.request is not None,
        fields=parse_object(body or b"") or {},
        response=_read_response(call, reader, is_plain=page.is_plain),
    )


def check(page: PageRequest, reader: CallReader, edited: bytes) -> Response:
    """Return problems and changes of an edited request as JSON; nothing of it is stored.

    Changes are left out if comparing took too long before (``page.is_plain``). Raises HTTPException,
    sqlite3.Error."""
    call = get_call(reader, page.arguments["usage_id"])
    recorded = None if page.is_plain else _read_request(call, reader)
    found = check_request(edited, recorded)
    return JSONResponse({"problems": found.problems, "changes": found.changes}, headers=PRIVATE)


def _read_request(call: Call, reader: CallReader) -> bytes | None:
    """Return the request to be edited, or None if it is too large or not text.

    If it was not kept, an empty request is returned."""
    if call.request is None:
        return _EMPTY
    if not call.request.is_text or call.request.length > MAX_EDITED_BYTES:
        return None
    try:
        whole = read_whole_request(reader.connection, call.id)
    except MissingPieceError:  # retention took it meanwhile
        return _EMPTY
    body = b"" if whole is None else whole.body
    return body if len(body) <= MAX_EDITED_BYTES else None


def _read_response(call: Call, reader: CallReader, *, is_plain: bool) -> MessageResponse | None:
    body = read_text(call, "response", reader, MAX_RESPONSE_BYTES)
    if body is None:
        return None
    address = body_address(call.id, "response")
    return parse_response(body, MAX_RESPONSE_CHARS, address=address, is_plain=is_plain)


def _lay_out(body: bytes) -> str:
    """Return a request with each value on a line of its own, unchanged if it is not JSON."""
    text = body.decode("utf-8", "replace")
    return text if parse_object(body) is None else lay_out(text)
