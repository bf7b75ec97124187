"""The calls in flight that somebody looks at: each is read once, however many people do."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.concurrency import run_in_threadpool

from dashboard.live.growth import GrowingResponse, Sent, describe_status
from store.spool.reader import InFlightFile, Waiting


class GrowingCall:
    """A call in flight, and what has been read of its response."""

    def __init__(self, file: InFlightFile) -> None:
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
        self._calls: dict[str, tuple[GrowingCall, InFlightFile, int]] = {}  # with how many look

    def __len__(self) -> int:
        return len(self._calls)

    @contextmanager
    def open(self, file: Waiting) -> Iterator[GrowingCall]:
        """Yield the call of a file, as others see it too. Raises OSError when it has ended."""
        if file.file not in self._calls:
            opened = InFlightFile(file)
            self._calls[file.file] = GrowingCall(opened), opened, 0
        call, opened, looking = self._calls[file.file]
        self._calls[file.file] = call, opened, looking + 1
        try:
            yield call
        finally:
            self._leave(file.file)

    def _leave(self, name: str) -> None:
        call, opened, looking = self._calls[name]
        if looking > 1:
            self._calls[name] = call, opened, looking - 1
        else:
            del self._calls[name]
            opened.close()


def read_more(file: InFlightFile, response: GrowingResponse) -> None:
    """Read what has come of a response since the last time. It blocks. Raises OSError."""
    response.read(*file.read_more())
