"""The calls in flight that somebody looks at: each is read once, however many people do."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from dashboard.live.growth import GrowingResponse, Sent, describe_status
from store.spool.reader import InFlightFile, Waiting


class GrowingCall:
    """A call in flight, and what has been read of its response, for as many as are ``looking``."""

    def __init__(self, file: InFlightFile) -> None:
        self.looking = 0
        self._file = file
        self._response = GrowingResponse()
        self._read_size = -1
        self._reading = asyncio.Lock()

    @property
    def size(self) -> int:
        """Return how many bytes there are of it."""
        return self._file.size

    @property
    def has_ended(self) -> bool:
        """Return whether nothing more is going to come."""
        return self._file.has_ended

    def close(self) -> None:
        """Close its file."""
        self._file.close()

    async def read(self, sent: Sent) -> dict[str, object]:
        """Return where the call stands, and what was not sent yet. Raises OSError."""
        async with self._reading:
            size = self._file.size
            if size != self._read_size:
                await run_in_threadpool(read_more, self._file, self._response)
                self._read_size = size
            status = describe_status(self._response)
            return {"status": status, "parts": sent.take_new(self._response)}


class GrowingCalls:
    """The calls that are looked at now."""

    def __init__(self) -> None:
        self._calls: dict[str, GrowingCall] = {}

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def open(self, file: Waiting) -> Iterator[GrowingCall]:
        """Yield the call of a file, as others see it too. Raises OSError when it has ended."""
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
    """Read what has come of a response since the last time. It blocks. Raises OSError."""
    response.read(*file.read_more())
