"""The proxy's workers: processes that accept connections on one socket, and their restart one by one.

A worker that is replaced lives on until its calls have ended, while its successor accepts connections.
So each worker may have two processes, and each process has its own row on the board that they share."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from manage.supervision.children import Child
from runtime import loading, shared_windows, worker_board
from runtime.errors import ChildError

type Keep = Callable[[Child, Mapping[str, str]], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class _Process:
    """A process of a worker. ``is_trial``: it is to replace another process and has not been ready yet."""

    number: int
    row: int
    child: Child
    is_trial: bool = False


class ProxyWorkers:
    """The processes of the proxy, and their shared memory."""

    def __init__(self, count: int, listen_fd: int, web_port: int | None, parent_fd: int) -> None:
        """Create the shared memory. The descriptors are those that the processes inherit. Raises OSError."""
        self._count = count
        self._listen_fd = listen_fd
        self._web_port = web_port
        self._parent_fd = parent_fd
        self.board_fd = worker_board.create(count)
        self._windows_fd = shared_windows.create()
        self._processes = [self._make(number, number - 1) for number in range(1, count + 1)]
        self._ended: asyncio.Queue[tuple[_Process, asyncio.Task[None]]] = asyncio.Queue()

    @property
    def children(self) -> list[Child]:
        """Return all processes that may be running."""
        return [process.child for process in self._processes]

    async def keep(self, keep: Keep, environ: Mapping[str, str]) -> None:
        """Run a process for each worker by ``keep``, and return once all have ended.

        Raises the ChildError of a process that cannot be kept running."""
        for process in self._processes:
            self._begin(process, keep, environ)
        while self._processes:
            process, keeping = await self._ended.get()
            self._processes.remove(process)
            if not process.is_trial:
                keeping.result()

    async def restart(self, keep: Keep, environ: Mapping[str, str]) -> None:
        """Replace the workers one by one, each once its successor is ready.

        Raises ChildError if a successor cannot start, or if earlier processes still occupy all rows of
        the board. Workers not yet replaced keep running."""
        for old in [each for each in self._processes if not each.child.is_replaced]:
            new = self._make(old.number, self._find_row())
            new.is_trial = True
            self._processes.append(new)
            keeping = self._begin(new, keep, environ)
            ready = asyncio.create_task(new.child.ready.wait())
            await asyncio.wait([keeping, ready], return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                ready.cancel()
                keeping.result()
                return  # the service stops
            new.is_trial = False
            old.child.is_replaced = True
            old.child.send_signal(signal.SIGUSR1)

    def close(self) -> None:
        """Close the shared memory. To be called once no process runs any more."""
        os.close(self.board_fd)
        os.close(self._windows_fd)

    def _begin(
        self, process: _Process, keep: Keep, environ: Mapping[str, str]
    ) -> asyncio.Task[None]:
        keeping = asyncio.create_task(keep(process.child, environ))
        keeping.add_done_callback(lambda task: self._ended.put_nowait((process, task)))
        return keeping

    def _find_row(self) -> int:
        """Return a free row of the board. Raises ChildError."""
        used = {process.row for process in self._processes}
        for row in range(2 * self._count):
            if row not in used:
                return row
        raise ChildError("calls from before the last restart are still in flight; try again later")

    def _find_pace(self) -> dict[str, str]:
        """Return the variable that makes a process start at low speed, if other workers are serving."""
        return {loading.GENTLY_VARIABLE: "1"} if worker_board.is_any_serving(self.board_fd) else {}

    def _make(self, number: int, row: int) -> _Process:
        """Return a process for worker ``number``, not yet started."""
        name = "proxy" if self._count == 1 else f"proxy-{number}"
        # -O skips mitmproxy's run-time type checks, a sixth of the time of a small request.
        command = [sys.executable, "-P", "-O", "-m", "addon", "--name", name]
        options = {
            "listen-fd": [self._listen_fd],
            "worker": [number],
            "board": [self.board_fd, row],
            "windows-fd": [self._windows_fd],
        }
        if self._web_port is not None:
            options["web-port"] = [self._web_port]
        for option, values in options.items():
            command += [f"--{option}", *map(str, values)]
        child = Child(
            name,
            command,
            [self._listen_fd, self.board_fd, self._windows_fd, self._parent_fd],
            find_environ=self._find_pace,
            on_end=partial(worker_board.clear, self.board_fd, row),
            is_vital=True,
        )
        return _Process(number, row, child)
