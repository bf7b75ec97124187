"""The web process's side of a connection to a query process.

The response is read on demand. Unread data stay in the socket, and then in the query process, which
waits.
"""

import asyncio
import socket
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
    """Raised if the connection ended before the response did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The status and the headers of a response."""

    status: int
    headers: list[tuple[bytes, bytes]]


class NotThereError(ProcessGoneError):
    """Raised if the process had ended before it confirmed the request."""


class SilentError(ProcessGoneError):
    """Raised if the process accepts connections and does not confirm a request in time."""


class Connection:
    """A connection, with one request at a time. Every method raises ProcessGoneError.

    It is a bare socket, since it serves several requests: setting up asyncio's streams takes longer than
    sending a request."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._received = bytearray()
        self._left_bytes = 0  # of the part that is read
        self._is_abandoned = False
        self.is_over = False  # the process computes nothing for this connection any more

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Connect to a process. Raises NotThereError if it has ended, OSError if this side cannot connect."""
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.setblocking(False)
            await asyncio.get_running_loop().sock_connect(connected, str(path))
        except BaseException as error:
            connected.close()
            if isinstance(error, ConnectionRefusedError | ConnectionResetError | FileNotFoundError):
                raise NotThereError(str(error)) from error
            raise
        return cls(connected)

    @property
    def may_go_on(self) -> bool:
        """Return whether another request may follow: the whole response was read."""
        return self.is_over and not self._is_abandoned

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    async def begin(self, method: str, target: bytes, headers: Headers, body: bytes = b"") -> None:
        """Send a request, and wait until the process confirms it.

        Raises NotThereError if the process ends before that: the request cannot have caused it."""
        self.is_over = False
        request = make_frame(encode_request(method, target, headers, body))
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, request)
            await self._read_exactly(len(RUNNING))
        except (OSError, ProcessGoneError) as error:
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
        """Return the next part of the response's body, None at its end."""
        if not self._left_bytes:
            self._left_bytes = await self._read_length()
            if not self._left_bytes:
                self.is_over = True
                return None
        part = await self._read_some(min(self._left_bytes, CHUNK_BYTES))
        self._left_bytes -= len(part)
        if self._left_bytes:  # of a long part there may always be more, and others want their turn
            await asyncio.sleep(0)
        return part

    def abandon(self) -> None:
        """Tell the process to stop computing, without waiting. It closes the connection after that."""
        self._is_abandoned = True
        with suppress(OSError):  # it has ended, or reads nothing
            self._socket.send(STOP)

    async def stop(self, within_s: float) -> bool:
        """Tell the process to stop computing. Return whether it did within ``within_s`` seconds."""
        self.abandon()
        with suppress(ProcessGoneError, TimeoutError):
            async with asyncio.timeout(within_s):
                while not self.is_over:
                    await self._read_some(CHUNK_BYTES)
        return self.is_over

    async def _read_length(self) -> int:
        return int.from_bytes(await self._read_exactly(LENGTH_BYTES))

    async def _read_exactly(self, count: int) -> bytes:
        while len(self._received) < count:
            self._received += await self._receive()
        return self._take(count)

    async def _read_some(self, most: int) -> bytes:
        if not self._received:
            self._received += await self._receive()
        return self._take(most)

    def _take(self, most: int) -> bytes:
        part = bytes(self._received[:most])
        del self._received[:most]
        return part

    async def _receive(self) -> bytes:
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, CHUNK_BYTES)
        except OSError as error:
            raise self._note_end(str(error)) from error
        if not data:
            raise self._note_end("the connection ended")
        return data

    def _note_end(self, reason: str) -> ProcessGoneError:
        self.is_over = self._is_abandoned
        return ProcessGoneError(reason)
