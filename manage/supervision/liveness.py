"""Killing of processes that run but no longer respond.

A process that holds its interpreter lock, waits for a lock that is never released, or is stopped does
not end by itself, so it would never be restarted. It is asked for ``/livez``, and killed if there is
no response for ten seconds in a row. These are counted in turns of the supervisor, not on a clock:
while the whole machine is suspended, no turn passes. The time that it waited for a processor does not
count: nothing is wrong with it then, and to start it again would take more of what is scarce."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from manage.supervision.children import Child
from runtime.stacks import STACKS_SIGNAL

TURN_S, MOST_TURNS = 1.0, 10  # without a response
STACKS_S = 0.5  # for the stacks to be written
_REQUEST = b"GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

type Ask = Callable[[], Awaitable[object]]


async def ask_livez(port: int) -> None:
    """Request ``/livez`` at a local port and wait for the first byte of the response. Raises OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(_REQUEST)
        await reader.read(1)
    finally:
        writer.close()


async def end_when_silent(child: Child, ask: Ask, warn: Callable[[str], None]) -> None:
    """Kill a child each time it is ready and does not respond. Runs until it is cancelled."""
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
    """Return whether the current process of a child does not respond for ``MOST_TURNS`` turns.

    Of each turn only that share counts in which the process had a processor or wanted none."""
    life, left = child.lives, float(MOST_TURNS)
    waits_s = read_waits_s(child.pid)
    asking = asyncio.ensure_future(ask())
    try:
        while left > 0:
            await asyncio.wait({asking}, timeout=TURN_S)
            if asking.done() or not child.is_ready or child.lives != life:
                return False
            before_s, waits_s = waits_s, read_waits_s(child.pid)
            waited_s = max((waits_s[each] - before_s.get(each, 0.0) for each in waits_s), default=0)
            left -= max(0.0, 1 - waited_s / TURN_S)
        return True
    finally:
        asking.cancel()
        # An error is no silence: the child closes connections, or this process has no descriptor left.
        with suppress(asyncio.CancelledError, OSError):
            await asking


def read_waits_s(pid: int | None) -> Mapping[str, float]:
    """Return how many seconds each thread of a process has waited for a processor, by its id.

    Empty where the kernel does not tell, or without a process."""
    waits_s = {}
    for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError, IndexError):  # a thread may end meanwhile
            waits_s[thread.parent.name] = int(thread.read_text().split()[1]) / 1e9
    return waits_s
