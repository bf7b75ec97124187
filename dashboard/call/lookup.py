"""The lookup of calls and of their bodies, and what is said of those that are not there."""

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
    """Return that there is no call with this id, and which is the newest. Raises sqlite3.Error."""
    newest = SessionReader(reader.connection).find_last_id()
    known = f" The newest is {format_count(newest)}." if newest else ""
    return f"There is no call {format_count(usage_id)}.{known}"


def get_call(reader: CallReader, usage_id: int) -> Call:
    """Return a call. Raises HTTPException where there is none with this id."""
    call = reader.find_call(usage_id)
    if call is None:
        raise HTTPException(404, NO_CALL)
    return call


def find_id(reader: CallReader, text: str) -> int:
    """Return the id of a call by that or by its entry's. Raises HTTPException, sqlite3.Error."""
    found = int(text) if text.isdigit() else reader.find_id(text)
    if found is None:
        raise HTTPException(404, NO_CALL)
    return found


def size_of(call: Call, side: Side) -> BodySize | None:
    """Return the size of a body, None for one that was not kept."""
    return call.request if side == "request" else call.response


def file_name(call: Call, side: Side) -> str:
    """Return the name of the file that a body is downloaded as."""
    size = size_of(call, side)
    if size is None or not size.is_text:
        kind = "bin"
    elif side == "request":
        kind = "json"
    else:
        kind = "txt" if call.entry.streamed else "json"
    return f"call-{call.id}-{side}.{kind}"
