"""One call with all its details, and optionally a part of a body."""

import codecs
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import CallReader, Side
from store.traces.calls.exported_call import encode_details
from store.traces.calls.reader import Row, TraceReader

MAX_DIGITS = 18  # of a row id


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyWish:
    """The part of a body to read, in characters."""

    side: Side
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyPart:
    """A part of a body. ``next_offset`` is the character after the part, None at the end of the body."""

    side: Side
    offset: int
    text: str
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OneCall:
    """A call: the columns of ``usage_log`` without bodies, and the rows of other tables as ``details``.

    ``part`` is None if none was requested or the body was not kept."""

    call: Row
    details: Mapping[str, Any]
    part: BodyPart | None


def read_one_call(path: Path, text: str, wish: BodyWish | None) -> OneCall | None:
    """Return the call whose row id or entry id is ``text``, or None. Raises sqlite3.Error."""
    if not path.exists():
        return None
    with CallReader.open(path) as bodies, TraceReader(path) as reader:
        usage_id = _find_id(bodies, text) if reader.is_ready else None
        row = None if usage_id is None else reader.find(usage_id)
        if usage_id is None or row is None:
            return None
        details = b"".join(encode_details(bodies.connection, usage_id))
        return OneCall(
            call=row,
            details=orjson.loads(b"{%s}" % details[1:]),
            part=None if wish is None else _read_part(bodies, usage_id, wish),
        )


def _find_id(reader: CallReader, text: str) -> int | None:
    if text.isdecimal() and text.isascii() and len(text) <= MAX_DIGITS:
        return int(text)
    return reader.find_id(text)


def _read_part(reader: CallReader, usage_id: int, wish: BodyWish) -> BodyPart | None:
    """Return a part of a body as text, with bytes that are not UTF-8 replaced; None if it was not kept."""
    if reader.is_text(wish.side, usage_id) is None:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    end, begun, found = wish.offset + wish.length, 0, [""]
    try:
        for chunk in reader.iter_body(usage_id, wish.side):
            text = decoder.decode(chunk)
            found.append(text[max(wish.offset - begun, 0) : max(end - begun, 0)])
            begun += len(text)
            if begun > end:
                break
    except MissingPieceError as error:
        raise sqlite3.DatabaseError(f"a body is not whole: {error}") from error
    return BodyPart(
        side=wish.side,
        offset=wish.offset,
        text="".join(found),
        next_offset=end if begun > end else None,
    )
