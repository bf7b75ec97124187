"""A replacement for the function of mitmproxy that decides when to read more from a connection.

* After each read a connection lets the others run, even if its next bytes are already there, and
  pauses if its data was costly to read (``http1/chunked.py``).
* While its upstream connection is being opened, or a hook is awaited, only little more is read from
  a client."""

import asyncio
from collections.abc import Awaitable, Callable

from mitmproxy.proxy.server import ConnectionHandler

from addon.core.direct_reading import DirectReader
from addon.core.read_policy import ReadPolicy
from addon.http1 import chunked, client_side

READS_WHILE_WAITING = 16
LOOK_AGAIN_S = 0.01

type Drain = Callable[[ConnectionHandler], Awaitable[None]]


def give_way(original: Drain, policy: ReadPolicy) -> Drain:
    """Return a ``drain_writers`` that lets other connections run after each read."""

    async def drain_writers(self: ConnectionHandler) -> None:
        rest_s = chunked.rest.take_s()  # right after what was read has been dealt with
        if _has_unsent(self):
            await original(self)
        if rest_s:
            await asyncio.sleep(rest_s)
        elif _has_more(self):
            await asyncio.sleep(0)
        held = client_side.find_input(self)
        while held is not None and held.waits_for_turn and _reads_client(self):
            await asyncio.sleep(0)
        while held is not None and held.is_postponed and _reads_client(self):
            await asyncio.sleep(LOOK_AGAIN_S)
        if _has_to_wait(self, policy):
            await _wait(self, policy)
        else:
            self.reads_while_waiting = 0  # type: ignore[attr-defined]

    return drain_writers


def _has_unsent(handler: ConnectionHandler) -> bool:
    """Return whether written data has not been sent yet, or can no longer be sent."""
    for io in handler.transports.values():
        if isinstance(io.writer, asyncio.StreamWriter) and (
            io.writer.transport.get_write_buffer_size() or io.writer.is_closing()
        ):
            return True
    return False


def _has_more(handler: ConnectionHandler) -> bool:
    """Return whether a connection has received data that was not read yet."""
    return any(getattr(io.reader, "_buffer", None) for io in handler.transports.values())


def _reads_client(handler: ConnectionHandler) -> bool:
    """Return whether the current task handles data from the client."""
    client_io = handler.transports.get(handler.client)
    if client_io is None:
        return False
    reader: object = client_io.reader
    if isinstance(reader, DirectReader):
        return reader.is_at_work
    return client_io.handler is asyncio.current_task()


def _has_to_wait(handler: ConnectionHandler, policy: ReadPolicy) -> bool:
    held = client_side.find_input(handler)
    return policy.is_connecting(handler.client.id) or (held is not None and held.awaits_hook)


async def _wait(handler: ConnectionHandler, policy: ReadPolicy) -> None:
    """Read only a little more from a waiting client, enough to notice that it disconnects."""
    if not _reads_client(handler):
        return
    reads = getattr(handler, "reads_while_waiting", 0) + 1
    handler.reads_while_waiting = reads  # type: ignore[attr-defined]
    while reads > READS_WHILE_WAITING and _has_to_wait(handler, policy):
        await asyncio.sleep(LOOK_AGAIN_S)
