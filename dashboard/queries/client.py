"""Send one request to a query process, over its Unix socket, and read the response as it is wanted.

What the reader here has not taken stays in the socket, and then with the process, which waits.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import h11

CHUNK_BYTES = 64 << 10
_HOP_BY_HOP = {b"connection", b"keep-alive", b"transfer-encoding"}

type Headers = Sequence[tuple[bytes, bytes]]


class ProcessGoneError(Exception):
    """The connection ended before the response did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The status and the headers of a response."""

    status: int
    headers: list[tuple[bytes, bytes]]


class NotThereError(ProcessGoneError):
    """Nobody listens: the process had ended before it was asked."""


class Connection:
    """A connection for one request. Every method raises ProcessGoneError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Connect to a process. Raises NotThereError, or OSError when it is this side that cannot."""
        try:
            return cls(*await asyncio.open_unix_connection(path, limit=CHUNK_BYTES))
        except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError) as error:
            raise NotThereError(str(error)) from error

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        descriptor: int = self._writer.get_extra_info("socket").fileno()
        return descriptor

    def close(self) -> None:
        self._writer.transport.abort()

    async def request(self, method: str, target: bytes, headers: Headers) -> Head:
        """Send a request without a body; return the response's head."""
        request = h11.Request(
            method=method, target=target, headers=[*headers, (b"connection", b"close")]
        )
        try:
            self._writer.write(self._http.send(request) or b"")
            self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
            await self._writer.drain()
        except OSError as error:
            raise ProcessGoneError(str(error)) from error
        event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise ProcessGoneError(f"{type(event).__name__} instead of a response")
        kept = [(name, value) for name, value in event.headers if name not in _HOP_BY_HOP]
        return Head(status=event.status_code, headers=kept)

    async def read(self) -> bytes | None:
        """Return the next part of the body, None at its end."""
        event = await self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    async def _next_event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(CHUNK_BYTES))
        except (OSError, h11.RemoteProtocolError) as error:
            raise ProcessGoneError(str(error)) from error
        if isinstance(event, h11.Response | h11.Data | h11.EndOfMessage):
            return event
        raise ProcessGoneError(f"the connection is {event!r}")
