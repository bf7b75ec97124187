"""``taximeter up``: start proxy, recorder and web, watch them, stop them together.

The supervisor binds both listening sockets and keeps them across restarts of the processes that
serve them, so that a client that comes in between waits instead of being refused.
"""

import asyncio
import os
import secrets
import signal
import socket
import ssl
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from store import lifeline
from store.locks import LockHeldError, ProcessLock
from store.outlet import Outlet
from store.settings import CLIENT_MARK_VARIABLE, Address, Settings, without_web_settings

MAX_DEATHS, DEATHS_WINDOW_S = 3, 10.0
PROXY_GRACE_S, WEB_GRACE_S, RECORDER_GRACE_S = 1.0, 1.0, 3.0


class StartError(Exception):
    """The service cannot start. The message says why and what to do."""


class KeepsDyingError(Exception):
    """A child died too often. The message ends with its last lines."""


@dataclass(slots=True)
class Child:
    """One process of the service, started again whenever it dies."""

    name: str
    command: Sequence[str]
    inherits: Sequence[int]
    stdout_fd: int | None = None
    say: Callable[[str], None] = lambda text: _print_error(text)
    process: asyncio.subprocess.Process | None = None
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    deaths_s: deque[float] = field(default_factory=lambda: deque(maxlen=MAX_DEATHS))

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def run_once(self, environ: Mapping[str, str]) -> int:
        """Start it and wait for its end. Returns the exit status (negative: the signal)."""
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            env=environ,
            pass_fds=self.inherits,
            stdout=self.stdout_fd,
            stderr=asyncio.subprocess.PIPE,
        )
        stderr = self.process.stderr
        while stderr is not None and (line := await _read_line(stderr)):
            text = line.decode(errors="replace").rstrip("\n")
            self.last_lines.append(text)
            self.say(text)
        return await self.process.wait()

    def note_death(self, status: int) -> None:
        """Raises KeepsDyingError on the third death within ten seconds."""
        now_s = time.monotonic()
        self.deaths_s.append(now_s)
        if len(self.deaths_s) == MAX_DEATHS and now_s - self.deaths_s[0] < DEATHS_WINDOW_S:
            lines = "\n".join(f"  {line}" for line in self.last_lines) or "  (it printed nothing)"
            raise KeepsDyingError(
                f"the {self.name} process died {MAX_DEATHS} times within {DEATHS_WINDOW_S:g} s"
                f" (last exit status {status}). Its last lines:\n{lines}"
            )

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
        with suppress(ProcessLookupError):
            if self.process is not None:
                self.process.kill()


class Supervisor:
    """Everything ``up`` holds: the lock, the sockets, the children."""

    def __init__(self, settings: Settings, *, stdout_fd: int | None = None) -> None:
        """``stdout_fd`` is where the line of each call and sign-in links go, instead of standard
        output.

        Raises StartError when the data directory is in use or the address cannot be bound."""
        self._settings = settings
        try:
            self._lock = ProcessLock(settings.data_dir / "up.lock")
        except LockHeldError as error:
            raise StartError(
                f"Taximeter is already running on {settings.data_dir} (process {error.pid})."
                " Stop that one, or use another TAXIMETER_DATA_DIR."
            ) from error
        self._front = _listen(settings.listen)
        self._web = _listen(Address("127.0.0.1", 0))
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._stopping = asyncio.Event()
        self._errors = Outlet(sys.stderr)
        python = [sys.executable, "-P"]
        front_fd, web_fd = self._front.fileno(), self._web.fileno()
        web_port = self._web.getsockname()[1]
        proxy_options = ["--listen-fd", str(front_fd), "--web-port", str(web_port)]
        shared = self._lifeline_read
        # -O skips mitmproxy's run-time type checks, a sixth of the time of a small request.
        self._proxy = Child(
            "proxy", [*python, "-O", "-m", "addon", *proxy_options], [front_fd, shared]
        )
        self._recorder = Child("recorder", [*python, "-m", "recorder"], [shared], stdout_fd)
        self._web_child = Child(
            "web",
            [*python, "-m", "manage.server", "--fd", str(web_fd)],
            [web_fd, shared],
            stdout_fd,
        )

    @property
    def address(self) -> Address:
        """Where the front door really is, also when the settings asked for port 0."""
        host, port = self._front.getsockname()[:2]
        return Address(host, port)

    async def run(self, environ: Mapping[str, str]) -> None:
        """Run until a signal asks for the end. ``environ`` holds the settings for the children.

        Raises KeepsDyingError; the children are stopped first."""
        environ = dict(environ)
        environ[lifeline.VARIABLE] = str(self._lifeline_read)
        environ[CLIENT_MARK_VARIABLE] = secrets.token_urlsafe(24)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._ask_to_stop)
        for child in (self._recorder, self._web_child, self._proxy):
            child.say = self._errors.say
        no_secrets = without_web_settings(environ)
        keepers = [
            asyncio.create_task(self._keep(self._recorder, no_secrets)),
            asyncio.create_task(self._keep(self._web_child, environ)),
            asyncio.create_task(self._keep(self._proxy, no_secrets)),
        ]
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*keepers, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            await self._stop_children()
            results = await asyncio.gather(*keepers, return_exceptions=True)
            stop.cancel()
            self._errors.say("Stopped.")
            self._release()
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _keep(self, child: Child, environ: Mapping[str, str]) -> None:
        while not self._stopping.is_set():
            status = await child.run_once(environ)
            if self._stopping.is_set():
                return
            child.note_death(status)
            self._warn(f"the {child.name} process ended with status {status} and is started again")

    async def _stop_children(self) -> None:
        self._front.close()  # with the proxy's copy gone as well, nobody listens any more
        await self._proxy.stop(self._settings.drain_seconds + PROXY_GRACE_S)
        await self._web_child.stop(WEB_GRACE_S)
        await self._recorder.stop(RECORDER_GRACE_S)

    def _on_interrupt(self) -> None:
        if not self._stopping.is_set():
            self._ask_to_stop()
            return
        self._warn("stopping at once; what was in flight is recorded at the next start")
        for child in (self._proxy, self._web_child, self._recorder):
            child.kill()

    def _ask_to_stop(self) -> None:
        if self._proxy.is_running and not self._stopping.is_set():
            self._warn(
                f"stopping: streams in flight get up to {self._settings.drain_seconds:g} s"
                " (Ctrl-C again ends at once)"
            )
        self._stopping.set()

    def _warn(self, text: str) -> None:
        self._errors.say(f"taximeter: {text}")

    def _release(self) -> None:
        self._errors.close()
        self._web.close()
        os.close(self._lifeline_read)
        os.close(self._lifeline_write)
        self._lock.release()


def check_trust_store(path: str | None) -> None:
    """Raises StartError for an ``SSL_CERT_FILE`` without which every call would fail."""
    try:
        if path:
            ssl.create_default_context(cafile=path)
    except OSError as error:  # ssl.SSLError is one
        raise StartError(f"SSL_CERT_FILE={path} holds no certificates: {error}") from error


def _listen(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        raise StartError(
            f"cannot listen on {address}: {error.strerror}."
            " Choose another address with TAXIMETER_LISTEN or --listen."
        ) from error
    listener.listen(1024)
    return listener


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readline()
    except ValueError:  # longer than the reader's limit: what it held is dropped
        return b"(a line too long to show)\n"


def _print_error(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
