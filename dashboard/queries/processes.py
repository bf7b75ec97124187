"""The query processes, as the web process sees them: sockets in a folder.

A process that computed something slow is used for the slow lane only: it has a lower priority from then
on, and may hold much memory. If a process is killed, the pool starts another one.
"""

import asyncio
import os
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

from dashboard.queries.client import Connection, NotThereError, ProcessGoneError
from dashboard.queries.handles import hold, is_hung_up, kill_process, send_signal
from dashboard.queries.protocol import MAX_OPEN, READING_SIGNAL, SOCKET_SUFFIX

WAIT_S, LOOK_EVERY_S = 3.0, 0.004
SLOW_NICENESS = 15
_NO_POOL = "this web process was started without a pool of them"


class NoProcessError(Exception):
    """Raised if there is no query process, or none became free in time."""


class Processes:
    """The query processes with sockets in ``folder``, none if it is None. Use it from the event loop's
    thread only."""

    def __init__(self, folder: Path | None, slow_count: int) -> None:
        self._folder = folder
        self._slow_count = slow_count
        self._lent: set[int] = set()
        self._pidfds: dict[int, int | None] = {}  # of those that there is a connection to
        self._kept: dict[int, Connection] = {}  # for the next request
        self._slow: set[int] = set()
        self._served: dict[int, OrderedDict[str, None]] = {}

    def path(self, pid: int) -> Path:
        """Return the path of a process's socket. Raises NoProcessError without a folder."""
        if self._folder is None:
            raise NoProcessError(_NO_POOL)
        return self._folder / f"{pid}{SOCKET_SUFFIX}"

    @asynccontextmanager
    async def lend(self, pid: int) -> AsyncIterator[Connection]:
        """Lend the connection to a process for one request.

        The process is killed if the block raises an error, unless it has stopped computing. Raises
        NotThereError if it has ended, NoProcessError if the web process has no descriptors left."""
        try:
            connection = await self._connect(pid)
            try:
                yield connection
            except ProcessGoneError:
                if not connection.is_over:
                    self.discard(pid)
                raise
            except BaseException:
                if not connection.is_over:
                    self.kill(pid)
                raise
            finally:
                if connection.may_go_on:
                    self._kept[pid] = connection
                else:
                    connection.close()
        except NotThereError:
            self.path(pid).unlink(missing_ok=True)  # its number may be another's
            raise
        finally:
            self._return(pid)

    async def _connect(self, pid: int) -> Connection:
        """Return the connection to a process: the one kept open, or a new one with a pidfd to kill it by."""
        kept = self._kept.get(pid)
        if kept is not None and not is_hung_up(kept.fileno()):
            del self._kept[pid]
            return kept
        self._forget(pid)
        try:
            connection = await Connection.open(self.path(pid))
            try:
                self._pidfds[pid] = hold(pid, connection.fileno())
            except BaseException:
                connection.close()
                raise
        except OSError as error:
            raise NoProcessError(f"no connection to one: {error.strerror}") from error
        return connection

    async def acquire(self, organization_id: str, *, is_slow: bool) -> int:
        """Wait for an idle process, and return its pid.

        ``lend`` must follow at once. Raises NoProcessError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_S):
                while (pid := self._find_idle(organization_id, is_slow=is_slow)) is None:
                    await asyncio.sleep(LOOK_EVERY_S)
                return self._lend(pid, organization_id, is_slow=is_slow)
        raise NoProcessError(f"none became free within {WAIT_S:g} s")

    def note_slow(self, pid: int) -> None:
        """Use a process for the slow lane only from now on, and lower its priority."""
        if pid in self._slow:
            return
        self._list()  # those that have ended are not too many
        self._slow.add(pid)
        lower_priority(pid)
        surplus = len(self._slow) - self._slow_count
        for idle in list(self._slow - self._lent)[: max(surplus, 0)]:
            self._discard_idle(idle)

    def note_reading(self, pid: int) -> None:
        """Have the pool replace a process that only sends its response; it ends after the response."""
        self._slow.discard(pid)  # it is none that the lane could have
        lower_priority(pid)
        if pid in self._pidfds and self.path(pid).exists():
            send_signal(READING_SIGNAL, pid, self._pidfds[pid])

    def kill(self, pid: int) -> None:
        """Kill a process and remove its socket, unless no connection to it is open.

        The pool of query processes then starts another one."""
        if pid in self._pidfds:
            self.path(pid).unlink(missing_ok=True)  # so that it is not found again meanwhile
            kill_process(pid, self._pidfds[pid])

    def discard(self, pid: int) -> None:
        """Kill a process that may have ended already.

        If its socket is gone, nothing is killed: the pool removes it before the pid can be reused."""
        try:
            self.path(pid).unlink()
        except FileNotFoundError:
            return
        if pid in self._pidfds:
            kill_process(pid, self._pidfds[pid])

    def _discard_idle(self, pid: int) -> None:
        """Kill a process that serves no request, if it still listens."""
        self._forget(pid)
        with closing(socket.socket(socket.AF_UNIX)) as connected:
            connected.setblocking(False)
            try:
                connected.connect(str(self.path(pid)))
                self._pidfds[pid] = hold(pid, connected.fileno())
            except (ConnectionRefusedError, NotThereError):
                self.path(pid).unlink(missing_ok=True)
                return
            except OSError:  # it stays for now
                return
        self.discard(pid)
        self._return(pid)

    def close(self) -> None:
        """Close the connections that are kept open."""
        for pid in list(self._kept):
            self._forget(pid)

    def _return(self, pid: int) -> None:
        self._lent.discard(pid)
        if pid not in self._kept:
            self._forget(pid)

    def _forget(self, pid: int) -> None:
        """Close the connection and the pidfd that are kept for a process."""
        kept = self._kept.pop(pid, None)
        if kept is not None:
            kept.close()
        pidfd = self._pidfds.pop(pid, None)
        if pidfd is not None:
            os.close(pidfd)

    def _lend(self, pid: int, organization_id: str, *, is_slow: bool) -> int:
        self._lent.add(pid)
        served = self._served.setdefault(pid, OrderedDict())
        served[organization_id] = None
        served.move_to_end(organization_id)
        if len(served) > MAX_OPEN:
            served.popitem(last=False)
        if is_slow:
            self.note_slow(pid)
        return pid

    def _find_idle(self, organization_id: str, *, is_slow: bool) -> int | None:
        """Return the pid of an idle process for a request of this lane, or None.

        Prefers one that has the organisation's database open, and then one that has few databases open."""
        present = self._list()
        idle = present - self._lent
        for_lane = idle & self._slow if is_slow else idle - self._slow
        if is_slow and not for_lane:
            for_lane = idle
        return min(
            for_lane,
            key=lambda pid: (
                organization_id not in self._served.get(pid, ()),
                len(self._served.get(pid, ())),
            ),
            default=None,
        )

    def _list(self) -> set[int]:
        if self._folder is None:
            raise NoProcessError(_NO_POOL)
        try:
            # Of all ways this one takes the least time, for each request.
            names = os.listdir(self._folder)  # noqa: PTH208
        except OSError:
            return set()
        sockets = (name for name in names if name.endswith(SOCKET_SUFFIX))
        present = {int(name.removesuffix(SOCKET_SUFFIX)) for name in sockets}
        for gone in self._served.keys() - present - self._lent:
            del self._served[gone]
            self._forget(gone)
        self._slow &= present | self._lent
        return present


def cpu_s(pid: int) -> float | None:
    """Return the processor time of another process in seconds, None if the kernel does not report it."""
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime((~pid << 3) | 2)  # what clock_getcpuclockid(3) makes of a pid
    except OSError:
        return None


def lower_priority(pid: int) -> None:
    """Lower the priority of all threads of a process; on Linux each thread has a niceness of its own."""
    try:
        threads = sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        threads = [pid]
    for thread in threads:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, SLOW_NICENESS)
