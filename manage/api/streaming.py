"""Responses of the API that are made in parts while they are sent.

The first part is made before anything is sent, so that most errors still get a status of their own."""

import logging
import sqlite3
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from dataclasses import dataclass

from starlette.responses import StreamingResponse
from starlette.types import Send

from runtime.organization_locks import BusyError

WHOLE_BYTES = 256 << 10  # A response up to this size is one part.

logger = logging.getLogger(__name__)

type Read = Callable[[], bytes]


class Parts:
    """The parts of a response, read by one thread at a time."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._is_closed = False

    def read(self) -> bytes:
        """Return the next part, empty at the end. Raises sqlite3.Error."""
        try:
            with self._lock:
                return self._read()
        finally:
            if self._is_closed:  # meanwhile
                self.close()

    def close(self) -> None:
        """Close the iterator of the parts without waiting: if a thread is reading, that thread closes it."""
        self._is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                if isinstance(self._parts, Generator):
                    self._parts.close()
            finally:
                self._lock.release()

    def _read(self) -> bytes:
        read, size = list[bytes](), 0
        for part in self._parts:
            read.append(part)
            size += len(part)
            if size >= WHOLE_BYTES:
                break
        return b"".join(read)


@dataclass(frozen=True, slots=True)
class Encoded:
    """The JSON of a response: its first part, and an iterator of the rest, None if there is no more."""

    start: bytes
    rest: Parts | None = None

    @classmethod
    def begin(cls, parts: Iterator[bytes]) -> "Encoded":
        """Read the first part of a response from ``parts``. Raises what ``parts`` raises."""
        made = Parts(parts)
        start = made.read()
        return cls(start, made if len(start) >= WHOLE_BYTES else None)


class PartsResponse(StreamingResponse):
    """A response that breaks off if a part cannot be made, so that the client sees that it is incomplete."""

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        except BusyError:
            logger.warning("A response of the API was cut: there are too many at once")
        except MemoryError:
            logger.warning("A response of the API was cut: there is not enough memory for it")
        except sqlite3.Error as error:
            logger.warning("A response of the API was cut: %s", error)


async def send_parts(
    encoded: Encoded, run: Callable[[Read], Awaitable[bytes]]
) -> AsyncGenerator[bytes]:
    """Yield the parts of a response; ``run`` reads each part in a thread. Raises what ``run`` raises."""
    yield encoded.start
    if encoded.rest is None:
        return
    try:
        while part := await run(encoded.rest.read):
            yield part
    finally:
        encoded.rest.close()
