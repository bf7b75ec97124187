"""A replacement for the function of mitmproxy that reads a connection, for ``python -m addon`` alone.

mitmproxy awaits each read in a task of the connection: received data completes a future, which wakes
the task in the next iteration of the event loop. Here received data is handled in the iteration in
which it arrives. That saves each read an iteration of the loop, with its poll of all sockets: three
for a small call.

Of a request body that is held and has a known length, larger pieces are read: each read passes through
all layers, and nothing behind the body is read with it. Chunked bodies and streamed ones are read as
before, because of the costs of such a read, and of the memory of what is queued for the upstream.

Reading pauses where mitmproxy would pause: while written data is not sent, and where
``connection_reading.py`` demands it."""

import asyncio
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from mitmproxy.connection import Connection
from mitmproxy.proxy import events
from mitmproxy.proxy.server import ConnectionHandler

from addon.http1 import client_side

MOST_OF_BODY_BYTES = 256 * 1024

type ConnectionReader = Callable[[ConnectionHandler, Connection], Awaitable[None]]


class DirectReader:
    """Replaces the reader of a connection. A call of ``read`` lasts until the end of the connection.

    Data that arrives until then is handled at once, when it arrives."""

    def __init__(
        self, handler: ConnectionHandler, connection: Connection, reader: asyncio.StreamReader
    ) -> None:
        self._handler = handler
        self._connection = connection
        self._reader: Any = reader
        self._loop = asyncio.get_running_loop()
        self._work: asyncio.Task[None] | None = None  # what reading waits for
        self._is_starting = False
        self._most_bytes = 0  # that mitmproxy reads at a time
        self._last = b""  # what had come when the connection failed

    @property
    def is_at_work(self) -> bool:
        """Return whether data of this connection is being handled right now."""
        return self._is_starting or (
            self._work is not None and asyncio.current_task() is self._work
        )

    async def read(self, most_bytes: int) -> bytes:
        """Return data received before this call, or b"" at the end of the connection. Raises OSError."""
        reader = self._reader
        if reader._buffer or reader.at_eof() or reader.exception() is not None:
            return bytes(await reader.read(most_bytes))
        end: asyncio.Future[None] = self._loop.create_future()

        self._most_bytes = most_bytes
        self._choose_size()
        reader.feed_data = self._take
        reader.feed_eof = partial(_note_end, end, reader.feed_eof)
        reader.set_exception = partial(self._fail, end, reader.set_exception)
        try:
            await end
            if self._work is not None:
                await self._work
            if self._last:
                await self._deal_with(self._last)
        except asyncio.CancelledError:
            if self._work is not None:
                self._work.cancel()
            raise
        finally:  # they hold the reader, which holds them
            del reader.feed_data, reader.feed_eof, reader.set_exception
        return bytes(await reader.read(most_bytes))

    def _fail(self, end: asyncio.Future[None], note: Callable[..., object], why: Exception) -> None:
        """Note an error, and keep data that an upstream had sent before.

        If a write finds that the upstream has reset the connection, its response may still be unread."""
        if self._connection is not self._handler.client:
            with suppress(OSError):
                self._last = self._reader._transport._sock.recv(MOST_OF_BODY_BYTES)
        _note_end(end, note, why)

    def _take(self, data: bytes) -> None:
        work = self._deal_with(data)
        self._is_starting = True
        try:
            awaited = work.send(None)
        except StopIteration:  # nothing to wait for, as nearly always: a task would take its time
            self._choose_size()
            return
        finally:
            self._is_starting = False
        self._reader._transport.pause_reading()
        self._work = asyncio.Task(_finish(work, awaited), loop=self._loop, eager_start=True)
        self._work.add_done_callback(self._go_on)

    async def _deal_with(self, data: bytes) -> None:
        """Handle data as mitmproxy does after each read."""
        await self._handler.server_event(events.DataReceived(self._connection, data))
        await self._handler.drain_writers()

    def _go_on(self, _work: asyncio.Task[None]) -> None:
        self._work = None
        self._choose_size()
        transport = self._reader._transport
        if transport is not None:
            transport.resume_reading()

    def _choose_size(self) -> None:
        """Set the maximum size of the next read."""
        is_client = self._connection is self._handler.client
        held = client_side.find_input(self._handler) if is_client else None
        of_body = 0 if held is None else min(held.left_bytes, MOST_OF_BODY_BYTES)
        transport = self._reader._transport
        if transport is not None:
            transport.max_size = max(self._most_bytes, of_body)


def _note_end(
    end: asyncio.Future[None], note: Callable[..., object], *of_what: BaseException
) -> None:
    note(*of_what)
    if not end.done():
        end.set_result(None)


async def _finish(work: Coroutine[Any, None, None], awaited: Any) -> None:
    """Finish a coroutine that was begun without a task and now waits for ``awaited``."""
    await _resume(work, awaited)


@types.coroutine
def _resume(work: Coroutine[Any, None, None], awaited: Any) -> Generator[Any, None, None]:
    step: Callable[[], Any]
    while True:
        try:
            yield awaited
        except BaseException as error:
            step = partial(work.throw, error)
        else:
            step = partial(work.send, None)
        try:
            awaited = step()
        except StopIteration:
            return


def read_directly(original: ConnectionReader, _given: None) -> ConnectionReader:
    """Return a ``handle_connection`` that reads through a ``DirectReader``."""

    async def handle_connection(self: ConnectionHandler, connection: Connection) -> None:
        reader: Any = self.transports[connection].reader
        if isinstance(reader, asyncio.StreamReader):
            reader = DirectReader(self, connection, reader)
            self.transports[connection].reader = reader
        del reader  # this frame must not hold it
        try:
            await original(self, connection)
        except asyncio.CancelledError as error:
            # The frame in which it was caught holds it, and it the frame, until garbage is collected.
            raise error.with_traceback(None) from None

    return handle_connection
