"""Conversion of a download to Parquet, between the query process that sends rows and the client."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec

from starlette.types import Message, Send

from dashboard.queries.protocol import COLUMNS_HEADER
from dashboard.slow_readers import CutError

SUFFIX = ".parquet"
NOT_INSTALLED = (
    "This service cannot write Parquet, because pyarrow is not installed where it runs. Take CSV or JSON"
    " Lines (.csv, .jsonl)."
)
_CONTENT_TYPE = b"application/vnd.apache.parquet"
_CHUNK_BYTES = 64 << 10
_COMMAND = (sys.executable, "-P", "-m", "dashboard.export.parquet_process")


def can_convert() -> bool:
    """Return whether Parquet can be written, that is, pyarrow is installed."""
    return find_spec("pyarrow") is not None


@asynccontextmanager
async def to_parquet(client: Send, *, is_head: bool) -> AsyncIterator[Send]:
    """Yield a ``send`` that converts a response of rows to Parquet; it passes others on unchanged.

    It waits while the client does not read. Raises CutError if the rows cannot be converted. If the
    response is not complete at the end of the block, the file is cut off."""
    converter: _Converter | None = None

    async def send(message: Message) -> None:
        nonlocal converter
        if message["type"] == "http.response.start":
            columns = dict(message["headers"]).get(COLUMNS_HEADER)
            if columns is not None:  # otherwise it is an error, in JSON
                message = {**message, "headers": _make_headers(message)}
                if not is_head:
                    converter = await _Converter.start(columns.decode(), client)
            await client(message)
        elif converter is None:
            await client(message)
        else:
            await converter.take(message.get("body", b""))
            if not message.get("more_body"):
                await converter.finish()

    try:
        yield send
    finally:
        if converter is not None:
            await converter.end()


class _Converter:
    """A process that writes the Parquet file, and the task that sends its output to the client."""

    def __init__(
        self,
        process: Process,
        rows: asyncio.StreamWriter,
        file: asyncio.StreamReader,
        client: Send,
    ) -> None:
        self._process = process
        self._rows = rows
        self._client = client
        self._forwarding = asyncio.create_task(self._forward(file))

    @classmethod
    async def start(cls, columns: str, client: Send) -> "_Converter":
        # Nothing of the environment: it has secrets.
        process = await asyncio.create_subprocess_exec(
            *_COMMAND, columns, stdin=PIPE, stdout=PIPE, env={}
        )
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process was started without its pipes")
        return cls(process, process.stdin, process.stdout, client)

    async def take(self, rows: bytes) -> None:
        """Pass rows to the process, waiting until it reads. Raises CutError if the process has ended."""
        try:
            self._rows.write(rows)
            await self._rows.drain()
        except OSError as error:
            raise CutError("its rows could not be made Parquet") from error

    async def finish(self) -> None:
        """Wait until the whole file is sent. Raises CutError if the process failed."""
        self._rows.close()
        await self._forwarding
        if await self._process.wait():
            raise CutError("its rows could not be made Parquet")
        await self._client({"type": "http.response.body", "body": b""})

    async def end(self) -> None:
        """End the process and stop sending, even if the file is not complete."""
        self._forwarding.cancel()
        await asyncio.gather(self._forwarding, return_exceptions=True)
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        self._rows.close()

    async def _forward(self, file: asyncio.StreamReader) -> None:
        try:
            while chunk := await file.read(_CHUNK_BYTES):
                await self._client({"type": "http.response.body", "body": chunk, "more_body": True})
        except CutError:  # nobody takes the file, so nobody may wait for the process to take rows
            self._process.kill()
            raise


def _make_headers(message: Message) -> list[tuple[bytes, bytes]]:
    replaced = (COLUMNS_HEADER, b"content-type")
    kept = [field for field in message["headers"] if field[0] not in replaced]
    return [*kept, (b"content-type", _CONTENT_TYPE)]
