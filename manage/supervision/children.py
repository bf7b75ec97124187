"""The child processes of a service, and the rules for restarting them.

A process that dies after it was ready is restarted again and again, with growing pauses: a failure of
the recorder or of the pages must never end the proxy. A first start that fails is different: a restart
does not remove its cause, such as a wrong setting, and somebody is there to read the message."""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from runtime import readiness
from runtime.errors import ChildError
from runtime.safe_text import terminal_line

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
LONG_LIFE_S = 30.0
MAX_LINE_BYTES = 64 * 1024
LAST_LINES_S = 0.5  # how long the last lines of a process may take to come
NOT_STARTED_STATUS = 127  # the exit status of a shell for a command that it cannot run
MAX_DEATHS, DEATHS_WINDOW_S = 3, 10.0


@dataclass(slots=True)
class RestartRule:
    """The rule for the pauses before restarts of one child."""

    longest_pause_s: float = LONGEST_PAUSE_S
    deaths: int = 0
    _next_pause_s: float = FIRST_PAUSE_S

    def pause_after(self, lived_s: float) -> float:
        """Return the seconds to wait before the restart of a child that lived for ``lived_s``.

        The pause doubles with each death, and is short again after a long life."""
        if lived_s >= LONG_LIFE_S:
            self.deaths, self._next_pause_s = 0, FIRST_PAUSE_S
        pause_s = min(self._next_pause_s, self.longest_pause_s)
        self.deaths += 1
        self._next_pause_s = min(2 * pause_s, self.longest_pause_s)
        return pause_s


@dataclass(slots=True)
class DeathWindow:
    """Counts deaths of a child, to detect that it dies too often to be restarted."""

    _deaths_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_DEATHS))

    def is_too_often(self, now_s: float) -> bool:
        """Count a death, and return whether it is the third within ten seconds."""
        self._deaths_s.append(now_s)
        return len(self._deaths_s) == MAX_DEATHS and now_s - self._deaths_s[0] < DEATHS_WINDOW_S


class _Watch(asyncio.SubprocessProtocol):
    """Passes on the lines of a process's standard error, and notes the end of the process.

    The end is that of the process itself, since its own children may keep standard error open."""

    def __init__(self, take_line: Callable[[str], None]) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._take_line = take_line
        self._rest = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[: MAX_LINE_BYTES + 1]  # longer is too long already
        for line in lines:
            self._take(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if self._rest:
            self._take(self._rest)
        if not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        if not self.exited.done():  # the waiting task may have been cancelled
            self.exited.set_result(None)

    def _take(self, line: bytes) -> None:
        is_short = len(line) <= MAX_LINE_BYTES
        # The line may quote untrusted text, and is printed on a terminal.
        text = (
            terminal_line(line.decode(errors="replace"))
            if is_short
            else "(a line that is too long)"
        )
        self._take_line(text)


@dataclass(slots=True)
class Child:
    """One process of the service.

    ``find_environ`` is called at each start for more variables. ``ready`` is set once the child has
    become ready for the first time. If a child ``is_vital`` and dies too often, the service ends. A
    child that ``is_replaced`` is not restarted."""

    name: str
    command: Sequence[str]
    inherits: Sequence[int]
    stdout_fd: int | None = None
    print_line: Callable[[str], None] = lambda text: _print_error(text)
    find_environ: Callable[[], Mapping[str, str]] = dict
    on_ready: Callable[[], None] = lambda: None
    on_end: Callable[[], None] = lambda: None
    is_vital: bool = False
    is_replaced: bool = False
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    is_ready: bool = False  # the process that runs now
    lives: int = 0
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    _process: asyncio.SubprocessTransport | None = None
    _watch: _Watch | None = None

    @property
    def was_ready(self) -> bool:
        return self.ready.is_set()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.get_returncode() is None

    @property
    def pid(self) -> int | None:
        """Return the id of the process that runs or ran last, None before the first start."""
        return None if self._process is None else self._process.get_pid()

    async def run_once(self, environ: Mapping[str, str]) -> int:
        """Start the child and wait for its end. Return its exit status, or minus the number of the signal.

        If the process cannot be started, for lack of memory or descriptors, return
        ``NOT_STARTED_STATUS``."""
        try:
            return await self._run(environ)
        except OSError as error:
            self.last_lines.append(f"the process could not be started: {error.strerror}")
            return NOT_STARTED_STATUS

    async def _run(self, environ: Mapping[str, str]) -> int:
        loop = asyncio.get_running_loop()
        ready_read, ready_write = os.pipe()
        os.set_blocking(ready_read, False)
        try:
            try:
                process, watch = await loop.subprocess_exec(
                    lambda: _Watch(self._take_line),
                    *self.command,
                    env={**environ, **self.find_environ(), readiness.VARIABLE: str(ready_write)},
                    pass_fds=(*self.inherits, ready_write),
                    stdin=None,
                    stdout=self.stdout_fd,
                )
            finally:
                os.close(ready_write)
            self._process, self._watch = process, watch
            self.lives += 1
            loop.add_reader(ready_read, self._read_ready, ready_read)
            await watch.exited
            self.on_end()
            await asyncio.wait([watch.closed], timeout=LAST_LINES_S)
            self._read_ready(ready_read)  # it may have become ready and died in the same instant
            self.is_ready = False
            process.close()
            return process.get_returncode() or 0
        finally:
            loop.remove_reader(ready_read)
            os.close(ready_read)

    def _take_line(self, text: str) -> None:
        self.last_lines.append(text)
        self.print_line(text)

    def _read_ready(self, fd: int) -> None:
        with suppress(BlockingIOError):
            ready = os.read(fd, 1)
            asyncio.get_running_loop().remove_reader(fd)  # only the end of the file is left
            if ready:
                self.is_ready = True
                self.ready.set()
                self.on_ready()

    def explain_end(self, what: str) -> ChildError:
        """Return the error that ends the whole service: ``what`` happened, and this child's last lines."""
        lines = "\n".join(f"  {line}" for line in self.last_lines) or "  (no output)"
        return ChildError(f"the {self.name} process {what}. Its last lines:\n{lines}")

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL if the process has not ended after ``grace_s``."""
        watch = self._watch
        if watch is None or not self.is_running:
            return
        self.send_signal(signal.SIGTERM)
        await asyncio.wait([watch.exited], timeout=grace_s)
        if not watch.exited.done():
            self.print_line(
                f"taximeter: the {self.name} process did not stop within {grace_s:g} s and is killed"
            )
            self.kill()
            await asyncio.wait([watch.exited])

    def kill(self) -> None:
        """Send SIGKILL, if the process runs."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if the process runs."""
        if self._process is not None and self.is_running:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


def _print_error(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
