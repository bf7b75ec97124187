"""One body of a call as a page shows it: read as what it is, or raw.

Short bodies stand in the page of their call. Others are asked for when somebody opens them, and even
then only so much of them is shown; the file to download has everything.
"""

from dataclasses import dataclass
from typing import Literal

from dashboard.call.answer import Answer, read_answer
from dashboard.call.conversation import MAX_CHARS, Conversation, read_request
from dashboard.call.shown_text import visible
from metering.formats import format_bytes
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
    """``left_out`` counts bytes."""

    text: str
    left_out: int
    is_dump: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """``conversation`` and ``answer`` are None for what cannot be read as such; ``raw`` is None
    where it is to be asked for."""

    side: Side
    title: str
    address: str
    file_name: str
    state: State
    length: int = 0
    size: str = ""
    conversation: Conversation | None = None
    answer: Answer | None = None
    raw: Raw | None = None

    @property
    def is_readable(self) -> bool:
        return self.conversation is not None or self.answer is not None


def outline_body(call: Call, side: Side, reader: CallReader) -> Body:
    """For the page of the call: read if it is short. Raises sqlite3.Error, MissingPieceError."""
    size = _size_of(call, side)
    if size is None or size.length == 0 or size.length > MAX_INLINE_BYTES:
        state: State = "absent" if size is None else "later" if size.length else "empty"
        return _make(call, side, state)
    data = reader.read_body(call.id, side, size.length)
    return _read(call, side, size, data, raw=_make_raw(data, size))


def open_body(call: Call, side: Side, view: View, reader: CallReader) -> Body | None:
    """What was asked for. None when that was not kept. Raises as above."""
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
    """As which it is downloaded: by its call, its side and what it is."""
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
    conversation = answer = None
    if size.is_text and side == "request":
        conversation = read_request(data)
    elif size.is_text:
        answer = read_answer(data)
    return _make(call, side, "inline", conversation, answer, raw)


def _make(
    call: Call,
    side: Side,
    state: State,
    conversation: Conversation | None = None,
    answer: Answer | None = None,
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
        answer=answer,
        raw=raw,
    )


def _make_raw(start: bytes, size: BodySize) -> Raw:
    if not size.is_text:
        shown = start[:MAX_DUMPED_BYTES]
        return Raw(text=_dump(shown), left_out=size.length - len(shown), is_dump=True)
    shown = start[:MAX_RAW_BYTES]
    text = shown.decode(errors="ignore")  # only a character that is cut at the end can be wrong
    return Raw(text=visible(text[:MAX_CHARS]), left_out=size.length - len(shown), is_dump=False)


def _dump(data: bytes) -> str:
    lines = []
    for place in range(0, len(data), _DUMP_WIDTH):
        row = data[place : place + _DUMP_WIDTH]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{place:08x}  {row.hex(' '):<{_DUMP_WIDTH * 3}} {text}")
    return "\n".join(lines)
