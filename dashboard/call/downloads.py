"""The bodies of a call as files, read in chunks while they are sent."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dashboard.call.bodies import file_name, size_of
from dashboard.rendering import PRIVATE
from store.traces.call_reader import CallReader, Side

FILE_HEADERS = PRIVATE | {"content-security-policy": "sandbox; default-src 'none'"}
NO_CALL = "This call does not exist, or retention has removed it."
NO_BODY = "This body was not kept."


class BodyFile:
    """A body being read, by one thread at a time. Closing it closes its reader."""

    def __init__(self, reader: CallReader, usage_id: int, side: Side) -> None:
        """Open the body. Raises LookupError, sqlite3.Error, MissingPieceError."""
        call = reader.find_call(usage_id)
        if call is None:
            raise LookupError(NO_CALL)
        size = size_of(call, side)
        if size is None:
            raise LookupError(NO_BODY)
        self.length = size.length
        self.name = file_name(call, side)
        self.media_type = (
            "text/plain; charset=utf-8" if size.is_text else "application/octet-stream"
        )
        self._reader = reader
        self._chunks = reader.iter_body(usage_id, side)
        self._first: bytes | None = next(self._chunks, b"")
        self._lock = threading.Lock()

    def read(self) -> bytes:
        """Return the next chunk, empty at the end."""
        with self._lock:
            if self._first is not None:
                chunk, self._first = self._first, None
                return chunk
            return next(self._chunks, b"")

    def close(self) -> None:
        with self._lock:
            self._reader.close()


class Download(Response):
    """A response with a content-length, so that the client can tell when its end is missing."""

    def __init__(self, file: BodyFile, executor: ThreadPoolExecutor, counted: ExitStack) -> None:
        super().__init__(
            None,
            200,
            FILE_HEADERS
            | {
                "content-length": str(file.length),
                "content-type": file.media_type,
                "content-disposition": f'attachment; filename="{file.name}"',
            },
        )
        self._file = file
        self._executor = executor
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            with self._counted:
                await send(start)
                if scope["method"] != "HEAD":
                    while chunk := await loop.run_in_executor(self._executor, self._file.read):
                        await send(_body(chunk, more=True))
                await send(_body(b"", more=False))
        finally:
            # Queued behind a read that is still running when the client has disconnected.
            try:
                self._executor.submit(self._file.close)
            except RuntimeError:  # it has been shut down, and nobody reads any more
                self._file.close()


def _body(chunk: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": chunk, "more_body": more}
