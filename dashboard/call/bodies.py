"""One body of a call: its size and type, which are known without reading it, and its bytes as text.

The text of a body is displayed up to a limit; the file to download is complete.
"""

from dataclasses import dataclass
from typing import Literal

from dashboard.call.addresses import body_address
from dashboard.call.conversation import MAX_CHARS
from dashboard.call.lookup import file_name, size_of
from metering.formats import format_bytes
from runtime.safe_text import reveal
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import BodySize, Call, CallReader, Side

MAX_RAW_BYTES = 1_000_000
MAX_DUMPED_BYTES = 2_048
_DUMP_WIDTH = 16

type State = Literal["absent", "empty", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """The beginning of a body as text, or as a hexadecimal dump (``is_dump``). ``left_out`` counts bytes."""

    text: str
    left_out: int
    is_dump: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The description of a body: whether it was kept, its size as text, and its address to download."""

    side: Side
    title: str
    address: str
    file_name: str
    state: State
    size: str


def describe_body(call: Call, side: Side) -> Body:
    """Return the description of a call's request or response body for its page."""
    size = size_of(call, side)
    return Body(
        side=side,
        title="Request" if side == "request" else "Response",
        address=body_address(call.id, side),
        file_name=file_name(call, side),
        state="absent" if size is None else "kept" if size.length else "empty",
        size=format_bytes(size.length) if size else "not kept",
    )


def read_raw(call: Call, side: Side, reader: CallReader) -> Raw | None:
    """Return the beginning of a body, None if it was not kept. Raises sqlite3.Error, MissingPieceError."""
    size = size_of(call, side)
    if size is None:
        return None
    return make_raw(reader.read_body(call.id, side, MAX_RAW_BYTES), size)


def read_text(call: Call, side: Side, reader: CallReader, max_bytes: int) -> bytes | None:
    """Return a text body as bytes. None if it is longer than ``max_bytes``, not text, not kept or just
    removed. Raises sqlite3.Error."""
    size = size_of(call, side)
    if size is None or not size.is_text or size.length > max_bytes:
        return None
    try:
        return reader.read_body(call.id, side, size.length)
    except MissingPieceError:  # retention removes it at this moment
        return None


def make_raw(start: bytes, size: BodySize) -> Raw:
    """Return the beginning of a body as text or as a hexadecimal dump, cut to the limit for pages."""
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
