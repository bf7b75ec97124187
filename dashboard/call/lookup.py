"""The lookup of calls and of their bodies, and the messages if they do not exist."""

from starlette.exceptions import HTTPException

from metering.formats import format_count
from store.traces.calls.call_reader import BodySize, Call, CallReader, Side
from store.traces.calls.threads import Gap
from store.traces.sessions.session_reader import SessionReader

NO_CALL = "This call does not exist, or retention has removed it."
NO_BODY = "This body was not kept."
GAPS: dict[Gap, str] = {
    "missing": "a call of its thread is not recorded.",
    "not kept": "the bodies of a call of its thread were not kept.",
    "cut": "the response to a call of its thread was cut.",
    "too long": "its thread is too long to be put together here.",
}
UNREADABLE = "This call cannot be read right now. Try again in a moment."


def describe_missing(reader: CallReader, usage_id: int) -> str:
    """Return a message that there is no call with this id, with the newest id. Raises sqlite3.Error."""
    newest = SessionReader(reader.connection).find_last_id()
    known = f" The newest is {format_count(newest)}." if newest else ""
    return f"There is no call {format_count(usage_id)}.{known}"


def get_call(reader: CallReader, usage_id: int) -> Call:
    """Return a call. Raises HTTPException (404) if there is none with this row id."""
    call = reader.find_call(usage_id)
    if call is None:
        raise HTTPException(404, NO_CALL)
    return call


def find_id(reader: CallReader, text: str) -> int:
    """Return the row id of a call, given that id or its entry id as text. Raises HTTPException,
    sqlite3.Error."""
    found = int(text) if text.isdigit() else reader.find_id(text)
    if found is None:
        raise HTTPException(404, NO_CALL)
    return found


def size_of(call: Call, side: Side) -> BodySize | None:
    """Return the size and type of a request or response body, None if it was not kept."""
    return call.request if side == "request" else call.response


def file_name(call: Call, side: Side) -> str:
    """Return the name for the file in which a body is downloaded."""
    size = size_of(call, side)
    if size is None or not size.is_text:
        kind = "bin"
    elif side == "request":
        kind = "json"
    else:
        kind = "txt" if call.entry.streamed else "json"
    return f"call-{call.id}-{side}.{kind}"
