"""One body of a call, parsed or raw.

Short bodies are part of the page of their call. Others are requested when somebody opens them, and
their text is displayed up to a limit; the file to download is complete.
"""

from dataclasses import dataclass
from typing import Literal

from dashboard.call.conversation import MAX_CHARS, Conversation, parse_request
from dashboard.call.response import MessageResponse, parse_response
from metering.formats import format_bytes
from runtime.safe_text import reveal
from store.traces.call_reader import BodySize, Call, CallReader, Side

MAX_INLINE_BYTES = 64_000
MAX_READ_BYTES = 48 << 20
MAX_RAW_BYTES = 1_000_000
MAX_DUMPED_BYTES = 2_048
_DUMP_WIDTH = 16

type State = Literal["absent", "empty", "inline", "later"]
type View = Literal["read", "raw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """A body as text or as a hexadecimal dump. ``left_out`` counts bytes."""

    text: str
    left_out: int
    is_dump: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One body on a page. ``conversation`` and ``response`` are None where it cannot be parsed;
    ``raw`` is None where it has an address of its own."""

    side: Side
    title: str
    address: str
    file_name: str
    state: State
    length: int = 0
    size: str = ""
    conversation: Conversation | None = None
    response: MessageResponse | None = None
    raw: Raw | None = None

    @property
    def is_readable(self) -> bool:
        return self.conversation is not None or self.response is not None


def outline_body(call: Call, side: Side, reader: CallReader) -> Body:
    """Return a body for the page of its call, parsed if it is short. Raises sqlite3.Error,
    MissingPieceError."""
    size = _size_of(call, side)
    if size is None or size.length == 0 or size.length > MAX_INLINE_BYTES:
        state: State = "absent" if size is None else "later" if size.length else "empty"
        return _make(call, side, state)
    data = reader.read_body(call.id, side, size.length)
    return _read(call, side, size, data, raw=_make_raw(data, size))


def open_body(call: Call, side: Side, view: View, reader: CallReader) -> Body | None:
    """Return a body parsed or raw, or None when it was not kept. Raises sqlite3.Error,
    MissingPieceError."""
    size = _size_of(call, side)
    if size is None:
        return None
    if view == "raw" or size.length > MAX_READ_BYTES or not size.is_text:
        data = reader.read_body(call.id, side, MAX_RAW_BYTES)
        return _make(call, side, "inline", raw=_make_raw(data, size))
    data = reader.read_body(call.id, side, size.length)
    body = _read(call, side, size, data)
    if body.is_readable:
        return body
    return _make(call, side, "inline", raw=_make_raw(data[:MAX_RAW_BYTES], size))


def file_name(call: Call, side: Side) -> str:
    """Return the name of the file that a body is downloaded as."""
    size = _size_of(call, side)
    if size is None or not size.is_text:
        kind = "bin"
    elif side == "request":
        kind = "json"
    else:
        kind = "txt" if call.entry.streamed else "json"
    return f"call-{call.id}-{side}.{kind}"


def _size_of(call: Call, side: Side) -> BodySize | None:
    return call.request if side == "request" else call.response


def _read(call: Call, side: Side, size: BodySize, data: bytes, raw: Raw | None = None) -> Body:
    conversation = response = None
    if size.is_text and side == "request":
        conversation = parse_request(data)
    elif size.is_text:
        response = parse_response(data)
    return _make(call, side, "inline", conversation, response, raw)


def _make(
    call: Call,
    side: Side,
    state: State,
    conversation: Conversation | None = None,
    response: MessageResponse | None = None,
    raw: Raw | None = None,
) -> Body:
    size = _size_of(call, side)
    return Body(
        side=side,
        title="Request" if side == "request" else "Response",
        address=f"/traces/usage/{call.id}/{side}",
        file_name=file_name(call, side),
        state=state,
        length=size.length if size else 0,
        size=format_bytes(size.length) if size else "not kept",
        conversation=conversation,
        response=response,
        raw=raw,
    )


def _make_raw(start: bytes, size: BodySize) -> Raw:
    if not size.is_text:
        shown = start[:MAX_DUMPED_BYTES]
        return Raw(text=_dump(shown), left_out=size.length - len(shown), is_dump=True)
    shown = start[:MAX_RAW_BYTES]
    text = shown.decode(errors="ignore")  # only a character that is cut at the end can be wrong
    return Raw(text=reveal(text[:MAX_CHARS]), left_out=size.length - len(shown), is_dump=False)


def _dump(data: bytes) -> str:
    lines = []
    for place in range(0, len(data), _DUMP_WIDTH):
        row = data[place : place + _DUMP_WIDTH]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{place:08x}  {row.hex(' '):<{_DUMP_WIDTH * 3}} {text}")
    return "\n".join(lines)
