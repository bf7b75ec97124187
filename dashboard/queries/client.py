"""The client side of a connection to a query process.

The response is read on demand. What is not read stays in the socket, and then in the process, which
waits.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import h11

from dashboard.queries.protocol import STOP

CHUNK_BYTES = 64 << 10
_EXPECTED = h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage
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
    """The process had ended before the request."""


class SilentError(ProcessGoneError):
    """The process listens and does not run."""


class Connection:
    """A connection for one request. Every method raises ProcessGoneError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._is_abandoned = False
        self.is_over = False  # the process computes nothing for this connection any more

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

    async def begin(self, method: str, target: bytes, headers: Headers) -> None:
        """Send a request without a body, and wait until the process confirms it."""
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
        if not isinstance(event, h11.InformationalResponse):
            raise ProcessGoneError(f"{type(event).__name__} before the process said that it runs")

    async def read_head(self) -> Head:
        """Return the head of the response."""
        event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise ProcessGoneError(f"{type(event).__name__} instead of a response")
        kept = [(name, value) for name, value in event.headers if name not in _HOP_BY_HOP]
        return Head(status=event.status_code, headers=kept)

    async def read(self) -> bytes | None:
        """Return the next part of the body, None at its end."""
        event = await self._next_event()
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def abandon(self) -> None:
        """Tell the process to stop. It closes the connection when it has."""
        self._is_abandoned = True
        self._writer.write(STOP)

    async def stop(self, within_s: float) -> bool:
        """Tell the process to stop. Return whether it did within that time."""
        self.abandon()
        with suppress(ProcessGoneError, TimeoutError):
            async with asyncio.timeout(within_s):
                while not self.is_over:
                    await self._next_event()
        return self.is_over

    async def _next_event(self) -> h11.Event:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(CHUNK_BYTES))
        except (OSError, h11.RemoteProtocolError) as error:
            self.is_over = self._is_abandoned
            raise ProcessGoneError(str(error)) from error
        if isinstance(event, h11.EndOfMessage):
            self.is_over = True
        if isinstance(event, _EXPECTED):
            return event
        self.is_over = self._is_abandoned
        raise ProcessGoneError(f"the connection is {event!r}")
