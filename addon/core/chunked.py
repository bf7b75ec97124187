"""A reader of chunked bodies (RFC 9112, section 7.1) for which many small chunks cost little.

What one read of a socket delivered is one piece of body, however many chunks it came in: each piece is
spooled once and forwarded once. Trailers are checked and dropped. Framing that no client sends ends
the body: more than 16 KB of it beyond 16 bytes and twice the size of each chunk (the measure of Go's
``net/http``, which has met all clients there are), a chunk header above 4 KB, or trailers above 16 KB.
"""

import re
import time
from typing import NoReturn

from h11 import Data, EndOfMessage, RemoteProtocolError
from h11._receivebuffer import ReceiveBuffer

from addon import headers

MAX_EXCESS_BYTES = 16 * 1024
MAX_LINE_BYTES = 4 * 1024
MAX_TRAILER_BYTES = 16 * 1024

# Above so many chunks in a read, its connection rests for so long per chunk before the next read, and
# no other such read is dealt with: it may come on a new connection.
USUAL_CHUNKS = 1000
REST_S = 20e-6

_HEADER = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?\r\n")
_TRAILER = re.compile(headers.FIELD)


class Rest:
    """Counts the chunks of a read, after which costly reads of all connections have to rest.

    The reader sets it, and whoever feeds the reader takes it before anything else can run."""

    def __init__(self) -> None:
        self._chunks = 0
        self._until_s = 0.0

    def note(self, chunks: int) -> None:
        self._chunks += chunks

    def take_s(self) -> float:
        """Return the seconds to rest, 0 after a usual read."""
        chunks, self._chunks = self._chunks, 0
        if chunks <= USUAL_CHUNKS:
            return 0.0
        self._until_s = max(self._until_s, time.monotonic()) + chunks * REST_S
        return chunks * REST_S

    def owed_s(self) -> float:
        """Return the seconds that a costly read has to wait for those that have been taken."""
        return max(0.0, self._until_s - time.monotonic())


rest = Rest()


class ChunkedReader:
    """Reads one chunked body. Call it until it returns None (more must come first) or
    ``EndOfMessage``. Raises RemoteProtocolError for what is not a chunked body."""

    def __init__(self) -> None:
        self._left = 0  # bytes of the chunk that has begun, with the two of its line end
        self._excess_bytes = 0
        self._in_trailers = False
        self._fault: str | None = None

    def __call__(self, buffer: ReceiveBuffer) -> Data | EndOfMessage | None:
        if self._fault is not None:
            raise RemoteProtocolError(self._fault)
        if self._in_trailers:
            return self._skip_trailers(buffer)
        received = buffer.maybe_extract_at_most(len(buffer))
        if received is None:
            return None
        pieces: list[bytearray] = []
        position = self._read(received, pieces)
        if position < len(received):
            buffer += received[position:]
        rest.note(len(pieces))
        if pieces:  # a fault is told once they are on their way
            return Data(data=b"".join(pieces))
        return self(buffer) if self._has_news() else None

    def _has_news(self) -> bool:
        return self._in_trailers or self._fault is not None

    def read_eof(self) -> NoReturn:
        """Raise RemoteProtocolError: the connection has ended before the body."""
        raise RemoteProtocolError("the peer closed the connection within a chunked body")

    def _read(self, received: bytearray, pieces: list[bytearray]) -> int:
        """Append what there is of the body to ``pieces``; return where what is not used begins."""
        position, end = 0, len(received)
        excess_bytes, find_header = self._excess_bytes, _HEADER.match
        while self._fault is None:
            if self._left:
                position = self._read_rest(received, position, pieces)
                if self._left or self._fault is not None:
                    break
            header = find_header(received, position)
            if header is None:
                self._judge_partial_header(received, position)
                break
            start, size = header.end(), int(header[1], 16)
            excess_bytes = max(0, excess_bytes + start - position - 16 - 2 * size)
            if excess_bytes > MAX_EXCESS_BYTES or start - position > MAX_LINE_BYTES:
                self._fault = "the body is mostly framing"
                break
            position, stop = start, start + size
            if not size:
                self._in_trailers = True
                break
            if stop + 2 <= end and received[stop : stop + 2] == b"\r\n":
                pieces.append(received[start:stop])
                position = stop + 2
            else:
                self._left = size + 2
        self._excess_bytes = excess_bytes
        return position

    def _read_rest(self, received: bytearray, position: int, pieces: list[bytearray]) -> int:
        """Read on in a chunk that is not wholly there, or whose end is wrong."""
        if self._left > 2:
            piece = received[position : position + self._left - 2]
            if piece:
                pieces.append(piece)
            position += len(piece)
            self._left -= len(piece)
        if self._left == 2 and len(received) - position >= 2:
            if received[position : position + 2] != b"\r\n":
                self._fault = "a chunk is longer than it says"
            self._left = 0
            position += 2
        return position

    def _judge_partial_header(self, received: bytearray, position: int) -> None:
        """Set a fault unless more may come of a line that has no end yet."""
        line_end = received.find(b"\n", position)
        if line_end >= 0:
            self._fault = "a chunk header is not valid"
        elif len(received) - position > MAX_LINE_BYTES:
            self._fault = "a chunk header is too long"

    def _skip_trailers(self, buffer: ReceiveBuffer) -> EndOfMessage | None:
        lines = buffer.maybe_extract_lines()
        size = len(buffer) if lines is None else sum(map(len, lines))
        if size > MAX_TRAILER_BYTES or not all(map(_TRAILER.fullmatch, lines or ())):
            raise RemoteProtocolError("the trailers of a body are too large or not valid")
        return None if lines is None else EndOfMessage()
