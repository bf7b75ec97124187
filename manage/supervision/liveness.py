"""The end of a process that runs and does nothing any more.

A process that holds its interpreter, waits for a lock that nobody releases, or is stopped does not end by
itself, so it would never be started again. It is asked for ``/livez``, and killed when there is no response
for ten seconds in a row. They are counted in turns of the supervisor, not on a clock: while the whole
machine stands still (suspended, or without a processor to spare) none of them passes.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

from manage.supervision.children import Child
from runtime.stacks import STACKS_SIGNAL

TURN_S, MOST_TURNS = 1.0, 10  # without a response
STACKS_S = 0.5  # for the stacks to be written
_REQUEST = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

type Ask = Callable[[], Awaitable[object]]


async def ask_livez(port: int) -> None:
    """Wait for a response of whatever listens on a port of this machine. Raises OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_REQUEST)
        await reader.read(1)
    finally:
        writer.close()


async def end_when_silent(child: Child, ask: Ask, warn: Callable[[str], None]) -> None:
    """Kill a child whenever it is ready and does not respond any more. Goes on until it is cancelled."""
    while True:
        life = child.lives
        if child.is_ready and await _is_silent(child, ask):
            warn(
                f"the {child.name} process has not responded for {TURN_S * MOST_TURNS:g} s and is killed;"
                " these are its stacks, if it can still write them"
            )
            child.send_signal(STACKS_SIGNAL)
            await asyncio.sleep(STACKS_S)
            if child.lives == life:  # not the next one, if it ended by itself meanwhile
                child.send_signal(signal.SIGKILL)
        await asyncio.sleep(TURN_S)


async def _is_silent(child: Child, ask: Ask) -> bool:
    """Return whether one life of a child does not respond for ``MOST_TURNS`` turns."""
    life = child.lives
    asking = asyncio.ensure_future(ask())
    try:
        for _ in range(MOST_TURNS):
            await asyncio.wait({asking}, timeout=TURN_S)
            if asking.done() or not child.is_ready or child.lives != life:
                return False
        return True
    finally:
        asking.cancel()
        # An error is no silence: the child closes connections, or this process has no descriptor left.
        with suppress(asyncio.CancelledError, OSError):
            await asking
