"""Chunked bodies (RFC 9112, section 7.1), of which many small chunks cost little.

All chunks of one read of a socket are joined to one piece of body, which is spooled once and forwarded
once. Trailers are checked and dropped. Framing that no client sends is an error: more than 16 KB of
framing beyond 16 bytes and twice the size of each chunk (the measure of Go's ``net/http``, which has
met all kinds of clients), a chunk header above 4 KB, or trailers above 16 KB."""

import re
import time

from addon import headers
from addon.core import head_bounds

MAX_EXCESS_BYTES = 16 * 1024
MAX_LINE_BYTES = 4 * 1024
MAX_TRAILER_BYTES = 16 * 1024

# Above so many chunks in a read, its connection rests for so long per chunk before the next read, and
# no other such read is dealt with: it may come on a new connection.
USUAL_CHUNKS = 1000
REST_S = 20e-6

_HEADER = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_TRAILERS = re.compile(rb"\n(?:" + headers.FIELD + rb"\r?\n)*\r?\n")


class Rest:
    """Counts the chunks of a read, and computes how long all connections have to pause after costly reads.

    The reader of chunks sets it, and the code that feeds the reader takes it before other code can
    run."""

    def __init__(self) -> None:
        self._chunks = 0
        self._until_s = 0.0

    def note(self, chunks: int) -> None:
        self._chunks += chunks

    def take_s(self) -> float:
        """Return the seconds to pause after the last read, 0 after a usual one."""
        chunks, self._chunks = self._chunks, 0
        if chunks <= USUAL_CHUNKS:
            return 0.0
        self._until_s = max(self._until_s, time.monotonic()) + chunks * REST_S
        return chunks * REST_S

    def owed_s(self) -> float:
        """Return the seconds that a costly read has to wait because of earlier costly reads."""
        return max(0.0, self._until_s - time.monotonic())


rest = Rest()


def is_costly(data: bytes) -> bool:
    """Return whether there are so many chunks that other connections must go first.

    More than ``USUAL_CHUNKS`` are too many."""
    return data.count(b"\r\n") > 2 * USUAL_CHUNKS


class InChunks:
    """Decodes a chunked body."""

    def __init__(self) -> None:
        self.is_whole = False
        self.fault: str | None = None
        self._unused = b""  # a line that is not whole, or what came behind the end
        self._left = 0  # bytes of the chunk that has begun, with the two of its line end
        self._excess_bytes = 0
        self._in_trailers = False

    def feed(self, data: bytes) -> bytes:
        """Return the contents of the chunks in ``data``. An error after them is set as ``fault``."""
        received, position = self._unused + data, 0
        pieces: list[bytes] = []
        if not self._in_trailers and self.fault is None:
            position = self._read(received, pieces)
            rest.note(len(pieces))
        if self._in_trailers and not self.is_whole:
            position = self._skip_trailers(received, position)
        self._unused = received[position:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_surplus(self) -> bytes:
        """Return data received after the end of the body, and forget it."""
        surplus, self._unused = self._unused, b""
        return surplus

    def _read(self, received: bytes, pieces: list[bytes]) -> int:
        """Append the parts of the body to ``pieces``; return the offset of the first unused byte."""
        position, end = 0, len(received)
        excess_bytes, find_header = self._excess_bytes, _HEADER.match
        while self.fault is None:
            if self._left:
                position = self._read_rest(received, position, pieces)
                if self._left or self.fault is not None:
                    break
            header = find_header(received, position)
            if header is None:
                self._judge_partial_header(received, position)
                break
            start, size = header.end(), int(header[1], 16)
            excess_bytes = max(0, excess_bytes + start - position - 16 - 2 * size)
            if excess_bytes > MAX_EXCESS_BYTES or start - position > MAX_LINE_BYTES:
                self.fault = "the body is mostly framing"
                break
            position, stop = start, start + size
            if not size:
                self._in_trailers = True
                position -= 1  # an empty line right behind this one's end is that of no trailers
                break
            if stop + 2 <= end and received[stop : stop + 2] == b"\r\n":
                pieces.append(received[start:stop])
                position = stop + 2
            else:
                self._left = size + 2
        self._excess_bytes = excess_bytes
        return position

    def _read_rest(self, received: bytes, position: int, pieces: list[bytes]) -> int:
        """Read the rest of a chunk that has begun; return the offset behind it. Sets ``fault`` for a wrong
        end."""
        if self._left > 2:
            piece = received[position : position + self._left - 2]
            if piece:
                pieces.append(piece)
            position += len(piece)
            self._left -= len(piece)
        if self._left == 2 and len(received) - position >= 2:
            if received[position : position + 2] != b"\r\n":
                self.fault = "a chunk is longer than it says"
            self._left = 0
            position += 2
        return position

    def _judge_partial_header(self, received: bytes, position: int) -> None:
        """Set a fault unless an incomplete chunk header may still become valid."""
        line_end = received.find(b"\n", position)
        if line_end >= 0:
            self.fault = "a chunk header is not valid"
        elif len(received) - position > MAX_LINE_BYTES:
            self.fault = "a chunk header is too long"

    def _skip_trailers(self, received: bytes, position: int) -> int:
        """Look for the end of the trailers; return the offset of the first unused byte."""
        trailers = received[position:]
        end = head_bounds.find_end(trailers)
        size = len(trailers) if end < 0 else end
        if size > MAX_TRAILER_BYTES or (end >= 0 and not _TRAILERS.fullmatch(trailers, 0, end)):
            self.fault = "the trailers of a body are too large or not valid"
            return position
        self.is_whole = end >= 0
        return position + max(end, 0)
