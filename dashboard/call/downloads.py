"""The bodies of a call as files, read in chunks while they are sent.

They are opened and read in threads of the web process, since none of their content is parsed and reading
takes no longer than sending.
"""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dashboard import rendering
from dashboard.call.lookup import NO_BODY, NO_CALL, UNREADABLE, file_name, size_of
from dashboard.current_counts import CurrentCounts
from dashboard.rendering import FILE_HEADERS, PRIVATE
from runtime.settings import Settings
from store.control.people import Caller
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls.call_reader import CallReader, Side
from store.traces.paths import trace_path

THREADS = 4
MAX_DOWNLOADS = 8
_BUSY = "Earlier requests of your organisation are still running. Try again in a moment."

logger = logging.getLogger(__name__)


class Downloads:
    """The downloads of request and response bodies. Enter ``running`` before the first one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pool: ThreadPoolExecutor | None = None
        self._downloads = CurrentCounts[str]()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(THREADS, thread_name_prefix="downloads") as self._pool:
            yield

    async def respond(
        self, usage_id: int, side: Side, caller: Caller, *, by_program: bool = False
    ) -> Response | None:
        """Return a body as a file, or an error response; None if the organisation has no trace database.
        ``by_program``: errors are JSON. Never raises sqlite3.Error."""

        def refuse_download(status: int, code: str, message: str) -> Response:
            return rendering.report(
                status, code, message, PRIVATE, by_program=by_program, visitor=caller, here="calls"
            )

        if self._pool is None:
            raise RuntimeError("used before running() was entered")
        path = trace_path(self._settings.data_dir, caller.organization_id)
        if self._downloads[caller.organization_id] >= MAX_DOWNLOADS:
            return refuse_download(503, "busy", _BUSY)
        with ExitStack() as counted:  # from here on: any number may come while this one is opened
            counted.enter_context(self._downloads.count(caller.organization_id))
            loop = asyncio.get_running_loop()
            try:
                file = await loop.run_in_executor(self._pool, _open, path, usage_id, side)
            except (sqlite3.Error, MissingPieceError, OSError):
                logger.exception("a body cannot be read")
                return refuse_download(503, "unavailable", UNREADABLE)
            except LookupError as error:
                return refuse_download(404, "not_found", str(error.args[0]))
            return None if file is None else Download(file, self._pool, counted.pop_all())


def _open(path: Path, usage_id: int, side: Side) -> "BodyFile | None":
    """Open a body and read its first chunk, so that an early error is a response and not a cut.

    Returns None if the database does not exist. Raises as ``BodyFile`` does."""
    if not path.exists():
        return None
    reader = CallReader.open(path)
    try:
        return BodyFile(reader, usage_id, side)
    except BaseException:
        reader.close()
        raise


class BodyFile:
    """A body that is being read, by one thread at a time. Closing it closes its reader."""

    def __init__(self, reader: CallReader, usage_id: int, side: Side) -> None:
        """Open the body and read its first chunk. Raises LookupError if there is none, sqlite3.Error,
        MissingPieceError."""
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
    """A response with a content-length, so that the client can detect that the end is missing."""

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
