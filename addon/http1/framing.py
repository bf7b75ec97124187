"""Framing of HTTP/1 bodies (RFC 9112, section 6): where they end, and how they are written."""

from functools import lru_cache

from addon.headers import Index
from addon.http1.chunked import InChunks

TO_END = -1
"""The size of a body that lasts to the end of its connection. That of one in chunks is None."""
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
    """Return a part of a body as it is written."""
    return b"%x\r\n%b\r\n" % (len(data), data) if in_chunks and data else data


class KnownLength:
    """A body whose length was said."""

    fault: str | None = None
    """Why what came behind the last part is no body, None while it is one."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.is_whole = not size
        """Nothing more of it comes."""
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
        """Return what came behind the end of the body, and forget it."""
        surplus, self._surplus = self._surplus, b""
        return surplus


class ToEnd:
    """A body that ends with its connection."""

    is_whole = False
    fault: str | None = None

    def feed(self, data: bytes) -> bytes:
        """Return ``data``: all of it is of the body."""
        return data

    def take_surplus(self) -> bytes:
        """Return nothing: no end of the body is known."""
        return b""


type Body = KnownLength | InChunks | ToEnd
"""Reads the body of a message out of what comes on its connection."""


def read_body(size: int | None) -> Body:
    """Return the reader of a body of this size."""
    if size is None:
        return InChunks()
    return ToEnd() if size == TO_END else KnownLength(size)
