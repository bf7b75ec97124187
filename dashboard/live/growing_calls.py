"""The calls in flight on open pages. Each is read once, however many pages show it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from dashboard.live.growth import GrowingResponse, Sent, describe_status
from store.spool.reader import InFlightFile, Waiting


class GrowingCall:
    """A call in flight, and what was read of its response. ``looking`` is the number of pages that show
    it."""

    def __init__(self, file: InFlightFile) -> None:
        self.looking = 0
        self._file = file
        self._response = GrowingResponse()
        self._read_size = -1
        self._reading = asyncio.Lock()

    @property
    def size(self) -> int:
        """Return the present size of its spool file in bytes."""
        return self._file.size

    @property
    def has_ended(self) -> bool:
        """Return whether the call has ended, so that its file does not grow any more."""
        return self._file.has_ended

    def close(self) -> None:
        """Close its spool file."""
        self._file.close()

    async def read(self, sent: Sent) -> dict[str, object]:
        """Return the status of the call and the texts that are not in ``sent`` yet. Raises OSError."""
        async with self._reading:
            size = self._file.size
            if size != self._read_size:
                await run_in_threadpool(read_more, self._file, self._response)
                self._read_size = size
            status = describe_status(self._response)
            return {"status": status, "parts": sent.take_new(self._response)}


class GrowingCalls:
    """The calls in flight that open pages show."""

    def __init__(self) -> None:
        self._calls: dict[str, GrowingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def open(self, file: Waiting) -> Iterator[GrowingCall]:
        """Yield the call of a spool file, shared by all pages with it. Raises OSError if it has ended."""
        if file.file not in self._calls:
            self._calls[file.file] = GrowingCall(InFlightFile(file))
        call = self._calls[file.file]
        call.looking += 1
        try:
            yield call
        finally:
            call.looking -= 1
            if not call.looking:
                del self._calls[file.file]
                call.close()


def read_more(file: InFlightFile, response: GrowingResponse) -> None:
    """Read what was added to a response since the last time. It blocks. Raises OSError."""
    response.read(*file.read_more())
