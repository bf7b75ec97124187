"""Framing of HTTP/1 bodies (RFC 9112, section 6): where they end, and how they are written."""

from functools import lru_cache

from h11 import EndOfMessage, ProtocolError
from h11._receivebuffer import ReceiveBuffer

from addon.core import chunked
from addon.headers import Index

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


class Body:
    """Reads the body of a message out of what comes on its connection."""

    is_whole = False
    """Nothing more of it comes."""
    fault: str | None = None
    """Why what came behind the last part is no body, None while it is one."""

    def feed(self, data: bytes) -> bytes:
        """Return what is of the body in ``data``, without its framing."""
        raise NotImplementedError

    def take_surplus(self) -> bytes:
        """Return what came behind the end of the body, and forget it."""
        return b""


class KnownLength(Body):
    """A body whose length was said."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.is_whole = not size
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


class InChunks(Body):
    """A body in chunks, of which any number may come at once."""

    def __init__(self) -> None:
        self._buffer = ReceiveBuffer()
        self._reader = chunked.ChunkedReader()

    def is_costly(self, data: bytes) -> bool:
        """Return whether to read this takes so long that others have to come first."""
        return data.count(b"\r\n") > 2 * chunked.USUAL_CHUNKS

    def feed(self, data: bytes) -> bytes:
        """Return the contents of the chunks in ``data``. A fault behind them is noted."""
        self._buffer += data
        pieces = []
        try:
            while not self.is_whole and (found := self._reader(self._buffer)) is not None:
                if isinstance(found, EndOfMessage):
                    self.is_whole = True
                else:
                    pieces.append(bytes(found.data))
        except ProtocolError as error:
            self.fault = str(error)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take_surplus(self) -> bytes:
        """Return what came behind the end of the body, and forget it."""
        return bytes(self._buffer.maybe_extract_at_most(len(self._buffer)) or b"")


class ToEnd(Body):
    """A body that ends with its connection."""

    def feed(self, data: bytes) -> bytes:
        """Return ``data``: all of it is of the body."""
        return data


def read_body(size: int | None) -> Body:
    """Return the reader of a body of this size."""
    if size is None:
        return InChunks()
    return ToEnd() if size == TO_END else KnownLength(size)
