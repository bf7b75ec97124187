"""The processes of a service, and when one that died is started again.

A process that dies after it was ready is started again for ever, with growing pauses: a failure of
recording or of the pages must never end the proxy. A first start that fails is different. It has a
reason that starting again does not mend, such as a wrong setting, and somebody is there to read it.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from store import readiness
from store.callog import printable

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
LONG_LIFE_S = 30.0
MAX_DEATHS, DEATHS_WINDOW_S = 3, 10.0


class ChildError(Exception):
    """The service ends because of a child. The message ends with the child's last lines."""


@dataclass(slots=True)
class RestartRule:
    """How long to wait before each restart of one child."""

    longest_pause_s: float = LONGEST_PAUSE_S
    deaths: int = 0
    _next_pause_s: float = FIRST_PAUSE_S

    def pause_after(self, lived_s: float) -> float:
        """Return the seconds to wait after a life of ``lived_s``: twice as long each time, and from
        the beginning again after a long life."""
        if lived_s >= LONG_LIFE_S:
            self.deaths, self._next_pause_s = 0, FIRST_PAUSE_S
        pause_s = min(self._next_pause_s, self.longest_pause_s)
        self.deaths += 1
        self._next_pause_s = min(2 * pause_s, self.longest_pause_s)
        return pause_s


@dataclass(slots=True)
class DeathWindow:
    """Tells whether a child dies so often that starting it again is no use."""

    _deaths_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_DEATHS))

    def is_too_often(self, now_s: float) -> bool:
        """Note a death, and return whether it is the third within ten seconds."""
        self._deaths_s.append(now_s)
        return len(self._deaths_s) == MAX_DEATHS and now_s - self._deaths_s[0] < DEATHS_WINDOW_S


@dataclass(slots=True)
class Child:
    """One process of the service. ``was_ready`` is whether it has ever become ready."""

    name: str
    command: Sequence[str]
    inherits: Sequence[int]
    stdout_fd: int | None = None
    say: Callable[[str], None] = lambda text: _print_error(text)
    on_ready: Callable[[], None] = lambda: None
    was_ready: bool = False
    process: asyncio.subprocess.Process | None = None
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=20))

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def run_once(self, environ: Mapping[str, str]) -> int:
        """Start it and wait for its end. Returns the exit status (negative: the signal)."""
        ready_read, ready_write = os.pipe()
        os.set_blocking(ready_read, False)
        loop = asyncio.get_running_loop()
        try:
            try:
                self.process = await asyncio.create_subprocess_exec(
                    *self.command,
                    env={**environ, readiness.VARIABLE: str(ready_write)},
                    pass_fds=(*self.inherits, ready_write),
                    stdout=self.stdout_fd,
                    stderr=asyncio.subprocess.PIPE,
                )
            finally:
                os.close(ready_write)
            loop.add_reader(ready_read, self._read_ready, ready_read)
            stderr = self.process.stderr
            while stderr is not None and (line := await _read_line(stderr)):
                # It may quote what came from elsewhere, and it goes to a terminal.
                text = printable(line.decode(errors="replace").rstrip("\n"))
                self.last_lines.append(text)
                self.say(text)
            status = await self.process.wait()
            self._read_ready(ready_read)  # it may have said so and died in the same instant
            return status
        finally:
            loop.remove_reader(ready_read)
            os.close(ready_read)

    def _read_ready(self, fd: int) -> None:
        with suppress(BlockingIOError):
            said = os.read(fd, 1)
            asyncio.get_running_loop().remove_reader(fd)  # there is no more to read than its end
            if said:
                self.was_ready = True
                self.on_ready()

    def explain_end(self, what: str) -> ChildError:
        """Return the error for an end of the whole service, with this child's last lines."""
        lines = "\n".join(f"  {line}" for line in self.last_lines) or "  (it printed nothing)"
        return ChildError(f"the {self.name} process {what}. Its last lines:\n{lines}")

    async def stop(self, grace_s: float) -> None:
        """SIGTERM, and SIGKILL when it has not gone within the grace."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            self.say(
                f"taximeter: the {self.name} process did not stop within {grace_s:g} s and is killed"
            )
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        with suppress(ProcessLookupError):
            if self.process is not None:
                self.process.kill()


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:  # longer than the reader's limit: what it held is dropped
        return b"(a line too long to show)\n"


def _print_error(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
