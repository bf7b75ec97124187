"""A client that sends exactly the bytes it is told to and shows exactly the bytes that came back.

For tests that need byte exactness: no header is added, nothing is retried, nothing is decoded. A
response that ends before its framing says so is given back with `cut` set, it does not raise.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self

type Headers = Sequence[tuple[str, str]]
type Framing = Literal["none", "length", "chunked", "close"]

TIMEOUT_S = 120.0


def request(
    method: str,
    target: str,
    headers: Headers = (),
    body: bytes | None = None,
    *,
    version: str = "1.1",
) -> bytes:
    """The bytes of a request; a body brings its content-length, nothing else is added."""
    lines = [f"{method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in headers)]
    if body is not None:
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (body or b"")


@dataclass(slots=True)
class Head:
    raw: bytes
    version: str
    status: int
    reason: str
    headers: list[tuple[str, str]]

    def header(self, name: str) -> str | None:
        """The only value of a header, None when it is absent."""
        values = self.header_values(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def header_values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def framing(self, method: str) -> Framing:
        if method == "HEAD" or self.status < 200 or self.status in (204, 304):
            return "none"
        if "chunked" in (self.header("transfer-encoding") or ""):
            return "chunked"
        return "length" if self.header("content-length") is not None else "close"


@dataclass(slots=True)
class Response:
    """A response as it came. `body` is de-chunked but still content-encoded."""

    head: Head
    body: bytes = b""
    cut: bool = False
    interim: list[Head] = field(default_factory=list)
    chunks: list[bytes] = field(default_factory=list)
    trailers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return self.head.status

    def header(self, name: str) -> str | None:
        return self.head.header(name)


class Cut(Exception):
    """The peer ended the connection before the framing said so."""


class Reset(Cut):
    """It did so with a TCP reset."""


class RawClient:
    """One connection."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timeout_s = timeout_s
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- sending ---

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def half_close(self) -> None:
        """Say that nothing more will be sent, and go on listening."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        self.socket.close()

    # --- receiving ---

    def exchange(self, data: bytes) -> Response:
        """Send one request and read its response."""
        self.send(data)
        return self.read_response(method=data.split(b" ", 1)[0].decode("latin-1"))

    def read_head(self) -> Head:
        """Raises Cut when the connection ends first."""
        while b"\r\n\r\n" not in self._buffer:
            self._fill()
        raw, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")
        version, status, *reason = lines[0].split(" ", 2)
        return Head(
            raw=raw + b"\r\n\r\n",
            version=version,
            status=int(status),
            reason=reason[0] if reason else "",
            headers=[_parse_header(line) for line in lines[1:]],
        )

    def read_response(self, method: str = "POST") -> Response:
        """The next final response with its whole body. Raises Cut when not even a head comes."""
        response = self.read_response_head()
        pieces = []
        try:
            for piece in self.iter_body(response, method):
                pieces.append(piece)
        except Cut:
            response.cut = True
        response.body = b"".join(pieces)
        return response

    def read_response_head(self) -> Response:
        """The next final response without its body. Raises Cut when no head comes."""
        interim = []
        while (head := self.read_head()).status < 200:
            interim.append(head)
        return Response(head, interim=interim)

    def iter_body(self, response: Response, method: str = "POST") -> Iterator[bytes]:
        """The body piece by piece as it comes: chunks if it is chunked. Raises Cut at a cut."""
        match response.head.framing(method):
            case "chunked":
                yield from self._iter_chunks(response)
            case "length":
                yield from self._iter_length(int(response.header("content-length") or 0))
            case "close":
                yield from self._iter_until_close()
            case _:
                pass

    def read_to_end(self) -> bytes:
        """Everything until the peer closes. Raises Reset when it does not close in order."""
        return b"".join(self._iter_until_close())

    def arrived(self) -> bytes:
        """Return what has arrived unread, without waiting for more and without taking it."""
        self.socket.setblocking(False)
        try:
            return self._buffer + self.socket.recv(1 << 16, socket.MSG_PEEK)
        except BlockingIOError:
            return self._buffer
        finally:
            self.socket.settimeout(self._timeout_s)

    def is_closed_by_peer(self) -> bool:
        """Wait for the peer's end of the connection; False when it sends something instead."""
        try:
            self._fill()
        except Cut:
            return True
        return False

    def _iter_chunks(self, response: Response) -> Iterator[bytes]:
        while size := int(self._read_line().split(b";")[0], 16):
            data = self._read_exactly(size)
            self._read_exactly(2)
            response.chunks.append(data)
            yield data
        while line := self._read_line():
            response.trailers.append(_parse_header(line.decode("latin-1")))

    def _iter_length(self, left: int) -> Iterator[bytes]:
        while left:
            if not self._buffer:
                self._fill()
            data, self._buffer = self._buffer[:left], self._buffer[left:]
            left -= len(data)
            yield data

    def _iter_until_close(self) -> Iterator[bytes]:
        while True:
            if self._buffer:
                data, self._buffer = self._buffer, b""
                yield data
            try:
                self._fill()
            except Reset:
                raise
            except Cut:
                return

    def _read_line(self) -> bytes:
        while b"\r\n" not in self._buffer:
            self._fill()
        line, _, self._buffer = self._buffer.partition(b"\r\n")
        return line

    def _read_exactly(self, size: int) -> bytes:
        pieces = []
        while size:
            if not self._buffer:
                self._fill()
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            size -= len(piece)
            pieces.append(piece)
        return b"".join(pieces)

    def _fill(self) -> None:
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError as error:
            raise Reset(str(error)) from error
        if not data:
            raise Cut("closed by the peer")
        self._buffer += data


def _parse_header(line: str) -> tuple[str, str]:
    name, separator, value = line.partition(":")
    assert separator, f"not a header: {line!r}"
    return name, value.strip()
