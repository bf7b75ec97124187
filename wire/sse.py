"""Parsing server-sent events from bytes, by the rules of the WHATWG HTML standard.

Lines end in LF, CR or CRLF and in nothing else: U+2028, U+2029 and U+0085 may stand inside JSON,
which is why this works on bytes and never on ``str.splitlines``. A blank line ends an event; only a
real one does, because JSON writes its line breaks as ``\\n``.

One departure from the standard: a last event without its blank line is returned too. In a stream that
was cut, or ends without one, the last event is often the one with the counts; if it was cut in the
middle, its JSON does not parse, and the caller notices that.

Most of a stream is text that is not needed here. ``containing`` is a list of byte strings; a block that
contains none of them is skipped at the speed of a substring search. Where very many blocks contain one,
only the first ones and those near the end are parsed: the model is at the beginning of a stream and the
usage at its end, and no stream may delay the others by more than some 50 ms.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK_LINE = b"\n\n"
# Looked at before the end, until there were so many or they held so much.
MAX_BLOCKS, MAX_BLOCK_BYTES = 5_000, 1024 * 1024
END_BYTES = 64 * 1024
MAX_LINES = 10_000  # of a block; a sender of JSON uses one for its data
FIELD_NAMES = (b"event", b"data", b"id", b"retry")


class Event(NamedTuple):
    """A server-sent event. ``name`` is its ``event`` field, or ``message`` without one; ``data``
    its joined data lines."""

    name: str
    data: bytes


def parse_events(body: bytes, containing: Sequence[bytes] = ()) -> Iterator[Event]:
    """Return the events of a stream in order. Takes any bytes, and never raises."""
    body = normalize_lines(body.removeprefix(BYTE_ORDER_MARK))
    for block in _find_blocks(body, containing) if containing else body.split(BLANK_LINE):
        if block and (event := _parse_block(block)) is not None:
            yield event


def normalize_lines(body: bytes) -> bytes:
    """Return a stream with all of its lines ending in LF."""
    return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in body else body


def sample_events(body: bytes, max_bytes: int, places: int) -> bytes:
    """Return a stream, or a sample of about ``max_bytes`` if it is longer.

    The sample has whole events at ``places`` evenly spread positions."""
    if len(body) <= max_bytes:
        return body
    body = normalize_lines(body)
    size = max_bytes // places
    parts = []
    for place in range(places):
        start = place * (len(body) - size) // (places - 1)
        first = body.find(BLANK_LINE, start, start + size) if start else 0
        end = body.find(BLANK_LINE, start + size)
        if first >= 0:
            parts.append(body[first : end + len(BLANK_LINE) if end >= 0 else len(body)])
    return b"".join(parts)


def looks_like_sse(body: bytes) -> bool:
    """Return whether the first non-blank line is a line of an event stream."""
    start = body[:4096].removeprefix(BYTE_ORDER_MARK).lstrip(b"\r\n")
    name, colon, _ = start.partition(b":")
    return bool(colon) and (not name or name in FIELD_NAMES)


def _find_blocks(body: bytes, containing: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the first blocks and those near the end that contain one of these byte strings."""
    size = 0
    for count, (start, end) in enumerate(_find_spans(body, containing, 0)):
        if count == MAX_BLOCKS or size > MAX_BLOCK_BYTES:
            break
        size += end - start
        yield body[start:end]
    else:
        return
    if start < len(body) - END_BYTES:
        start = body.find(BLANK_LINE, len(body) - END_BYTES)
    if start >= 0:
        for begin, end in _find_spans(body, containing, start):
            yield body[begin:end]


def _find_spans(body: bytes, containing: Sequence[bytes], end: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the blocks after ``end`` that contain one of these byte strings."""
    size = len(body)
    hits = [_find(body, wanted, end) for wanted in containing]
    while (hit := min(hits)) < size:
        before = body.rfind(BLANK_LINE, end, hit)
        start = before + len(BLANK_LINE) if before >= 0 else end
        end = _find(body, BLANK_LINE, hit)
        yield start, end
        for place, wanted in enumerate(containing):
            if hits[place] < end:
                hits[place] = _find(body, wanted, end)


def _find(body: bytes, wanted: bytes, start: int) -> int:
    """Return the next position of ``wanted``, or the length of the body."""
    place = body.find(wanted, start)
    return place if place >= 0 else len(body)


def _parse_block(block: bytes) -> Event | None:
    """Return the event in a block, or None for a block without data, such as a comment."""
    name, data = b"", []
    for line in block.split(b"\n", MAX_LINES)[:MAX_LINES]:
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    joined = b"\n".join(data)
    if not joined:
        return None
    return Event(name.decode("utf-8", "replace") or "message", joined)
