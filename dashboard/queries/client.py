"""The client side of a connection to a query process.

The response is read on demand. What is not read stays in the socket, and then in the process, which
waits.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dashboard.queries.protocol import (
    LENGTH_BYTES,
    RUNNING,
    STOP,
    Headers,
    decode_head,
    encode_request,
    make_frame,
)

CHUNK_BYTES = 64 << 10
MAX_HEAD_BYTES = 1 << 20  # an address to go on at may be long


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
        self._left_bytes = 0  # of the part that is read
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
        """Send a request without a body, and wait until the process confirms it. Raises NotThereError when
        it ends before: it then never had the request, which is not to blame."""
        try:
            self._writer.write(make_frame(encode_request(method, target, headers)))
            await self._writer.drain()
            await self._reader.readexactly(len(RUNNING))
        except (OSError, asyncio.IncompleteReadError) as error:
            raise NotThereError(f"it ended before it confirmed the request: {error}") from error

    async def read_head(self) -> Head:
        """Return the head of the response."""
        length = await self._read_length()
        if not 0 < length <= MAX_HEAD_BYTES:
            raise ProcessGoneError(f"a head of {length} bytes")
        try:
            status, headers = decode_head(await self._read_exactly(length))
        except (ValueError, TypeError, AttributeError) as error:
            raise ProcessGoneError(f"a head that is none: {error}") from error
        return Head(status=status, headers=headers)

    async def read(self) -> bytes | None:
        """Return the next part of the body, None at its end."""
        if not self._left_bytes:
            self._left_bytes = await self._read_length()
            if not self._left_bytes:
                self.is_over = True
                return None
        part = await self._read_some(min(self._left_bytes, CHUNK_BYTES))
        self._left_bytes -= len(part)
        return part

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
                    await self._read_some(CHUNK_BYTES)
        return self.is_over

    async def _read_length(self) -> int:
        return int.from_bytes(await self._read_exactly(LENGTH_BYTES))

    async def _read_exactly(self, count: int) -> bytes:
        try:
            return await self._reader.readexactly(count)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise self._note_end(str(error)) from error

    async def _read_some(self, most: int) -> bytes:
        try:
            part = await self._reader.read(most)
        except OSError as error:
            raise self._note_end(str(error)) from error
        if not part:
            raise self._note_end("the connection ended")
        return part

    def _note_end(self, reason: str) -> ProcessGoneError:
        self.is_over = self._is_abandoned
        return ProcessGoneError(reason)
