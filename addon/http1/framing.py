"""Framing of HTTP/1 bodies (RFC 9112, section 6): where they end, and how they are written."""

from functools import lru_cache

from addon.headers import Index
from addon.http1.chunked import InChunks

TO_END = -1
"""The size of a body that lasts until its connection ends. The size of a chunked body is None."""
LAST_CHUNK = b"0\r\n\r\n"


def is_chunked(found: Index) -> bool:
    """Return whether the body of a message is written in chunks."""
    return b"chunked" in found.get(b"transfer-encoding", b"").lower()


def says_close(version: bytes, found: Index) -> bool:
    """Return whether a message is the last on its connection."""
    tokens = _split(found.get(b"connection", b""))
    if b"close" in tokens:
        return True
    return version != b"HTTP/1.1" and b"keep-alive" not in tokens


@lru_cache(64)
def _split(value: bytes) -> frozenset[bytes]:
    return frozenset(each.strip().lower() for each in value.split(b","))


def frame(data: bytes, *, in_chunks: bool) -> bytes:
    """Return a part of a body as written on the wire."""
    return b"%x\r\n%b\r\n" % (len(data), data) if in_chunks and data else data


class KnownLength:
    """A body of a known length."""

    fault: str | None = None
    """A description of an error after the last part of the body, None if there is none."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.is_whole = not size
        """The whole body was received."""
        self._surplus = b""

    def feed(self, data: bytes) -> bytes:
        """Return ``data`` up to the end of the body."""
        if len(data) > self.left:
            self._surplus += data[self.left :]
            data = data[: self.left]
        self.left -= len(data)
        self.is_whole = not self.left
        return data

    def take_surplus(self) -> bytes:
        """Return data received after the end of the body, and forget it."""
        surplus, self._surplus = self._surplus, b""
        return surplus


class ToEnd:
    """A body that lasts until its connection ends."""

    is_whole = False
    fault: str | None = None

    def feed(self, data: bytes) -> bytes:
        """Return ``data``, all of which belongs to the body."""
        return data

    def take_surplus(self) -> bytes:
        """Return ``b""``, since nothing can follow the body."""
        return b""


type Body = KnownLength | InChunks | ToEnd
"""Reads the body of a message out of what comes on its connection."""


def read_body(size: int | None) -> Body:
    """Return a reader for a body: of ``size`` bytes, chunked for None, or to the end for ``TO_END``."""
    if size is None:
        return InChunks()
    return ToEnd() if size == TO_END else KnownLength(size)
