"""``taximeter up``: start the processes of the service, watch them, and stop them together.

The supervisor binds both listening sockets and keeps them across restarts of the processes that
serve them, so that a client that connects meanwhile waits instead of being refused.
"""

import asyncio
import os
import secrets
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from manage.supervision.child_environ import give_back_memory, without_credentials, without_private
from manage.supervision.children import (
    DEATHS_WINDOW_S,
    MAX_DEATHS,
    Child,
    DeathWindow,
    RestartRule,
)
from manage.supervision.liveness import ask_livez, end_when_silent
from manage.supervision.proxy_workers import ProxyWorkers
from manage.supervision.services import Service, ServiceMaker
from manage.third_party.starting import prepare
from runtime import descriptors, extensions, parent_watch
from runtime.child_troubles import ChildTrouble, trim_lines, write_troubles
from runtime.errors import ChildError, StartError
from runtime.json_lines import format_json_line, wrap_line
from runtime.locks import LockHeldError, ProcessLock
from runtime.settings import (
    CLIENT_MARK_VARIABLE,
    Address,
    Settings,
    without_web_settings,
)
from runtime.terminal_output import LineWriter

# A proxy that is down may fail calls: it either comes back soon or ends the service.
VITAL_LONGEST_PAUSE_S = 1.0
PROXY_GRACE_S = 1.0
MAX_SOCKET_FOLDER = 80  # of the hundred or so bytes that the path of a Unix socket may have


class Supervisor:
    """The running service: its lock, its sockets and its child processes."""

    def __init__(
        self, settings: Settings, *, stdout_fd: int | None = None, is_demo: bool = False
    ) -> None:
        """Take the lock of the data directory and bind the sockets.

        ``stdout_fd`` replaces standard output for lines on calls and for sign-in links. ``is_demo``:
        everybody at this machine may sign in. Raises StartError if the data directory is in use or the
        address cannot be bound."""
        self._settings = settings
        try:
            self._lock = ProcessLock(settings.data_dir / "up.lock")
        except LockHeldError as error:
            raise StartError(
                f"Taximeter is already running on {settings.data_dir.absolute()} (process {error.pid})."
                " Stop that one, or use another TAXIMETER_DATA_DIR."
            ) from error
        self._front = _listen(settings.listen)
        self._web = _listen(Address("127.0.0.1", 0))
        self._parent_pipe_read, self._parent_pipe_write = os.pipe()
        self._stopping = asyncio.Event()
        self._errors = LineWriter(sys.stderr)
        self._writes_json = settings.log_format == "json"
        self._troubles: dict[str, ChildTrouble] = {}
        shared = self._parent_pipe_read
        web_port = self._web.getsockname()[1]
        self._workers = ProxyWorkers(
            settings.workers,
            self._front.fileno(),
            web_port if settings.has_pages else None,
            shared,
        )
        self._restarting: asyncio.Task[None] | None = None
        self._sockets = _make_socket_folder()
        self._maker = ServiceMaker(
            settings,
            web_fd=self._web.fileno(),
            web_port=web_port,
            board_fd=self._workers.board_fd,
            parent_fd=shared,
            stdout_fd=stdout_fd,
            sockets=self._sockets,
            is_demo=is_demo,
        )
        self._services: Sequence[Service] = ()

    @property
    def address(self) -> Address:
        """Return the address on which the front door listens, with the actual port."""
        host, port = self._front.getsockname()[:2]
        return Address(host, port)

    async def run(self, environ: Mapping[str, str]) -> None:
        """Run until a signal stops the service. ``environ`` holds the settings for the children.

        Raises ChildError after the children have been stopped."""
        descriptors.raise_limit()  # here, once: the children inherit it
        self._write_troubles()  # remove those of an earlier service
        for_proxy = self._prepare(give_back_memory(without_credentials(environ)))
        keepers = [
            asyncio.create_task(self._keep(each.child, each.environ))
            for each in reversed(self._services)
        ]
        keepers.append(asyncio.create_task(self._workers.keep(self._keep, for_proxy)))
        watches = [
            asyncio.create_task(
                end_when_silent(each.child, partial(ask_livez, each.livez_port), self._warn)
            )
            for each in self._services
            if each.livez_port is not None
        ]
        stop = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([*keepers, stop], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            for watch in watches:
                watch.cancel()
            await self._stop_children()
            results = await asyncio.gather(*keepers, return_exceptions=True)
            await asyncio.gather(*watches, return_exceptions=True)
            stop.cancel()
            if self._restarting is not None:
                await self._restarting
            self._say("Stopped.")
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _prepare(self, environ: dict[str, str]) -> dict[str, str]:
        """Make the services and install the signal handlers. Return the environment of the proxy."""
        for_extensions = dict(environ)
        environ = without_private(environ)
        environ[parent_watch.VARIABLE] = str(self._parent_pipe_read)
        environ[CLIENT_MARK_VARIABLE] = secrets.token_urlsafe(24)
        for_proxy = without_web_settings(environ)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._request_stop)
        loop.add_signal_handler(signal.SIGUSR1, self._begin_restart, for_proxy)
        hooks = extensions.call()
        hooks.before_start(settings=self._settings, environ=for_extensions, warn=self._warn)
        specs = chain(*hooks.processes(settings=self._settings, environ=for_extensions))
        self._services = self._maker.make(environ, [*specs, *prepare(self._settings, self._warn)])
        return for_proxy

    async def _keep(self, child: Child, environ: Mapping[str, str]) -> None:
        """Run a child and restart it whenever it dies.

        Raises ChildError if its first start fails, or if it is vital and dies too often."""
        rule = RestartRule(VITAL_LONGEST_PAUSE_S) if child.is_vital else RestartRule()
        window = DeathWindow()
        child.print_line = partial(self._print_line_of, child.name)
        child.on_ready = lambda: self._forget_trouble(child)
        while not (self._stopping.is_set() or child.is_replaced):
            started_s = time.monotonic()
            status = await child.run_once(environ)
            if self._stopping.is_set() or child.is_replaced:
                return
            now_s = time.monotonic()
            # One that was killed, by a person or for want of memory, had no fault of its own.
            if not child.was_ready and status != -signal.SIGKILL:
                raise child.explain_end(f"could not start (exit status {status})")
            if child.is_vital and window.is_too_often(now_s):
                raise child.explain_end(
                    f"died {MAX_DEATHS} times within {DEATHS_WINDOW_S:g} s"
                    f" (last exit status {status})"
                )
            await self._pause(child, status, rule, now_s - started_s)

    async def _pause(self, child: Child, status: int, rule: RestartRule, lived_s: float) -> None:
        """Report the death of a child, and wait until its restart is due or the service stops."""
        pause_s = rule.pause_after(lived_s)
        trouble = self._troubles[child.name] = ChildTrouble(
            name=child.name,
            status=status,
            deaths=rule.deaths,
            pause_s=pause_s,
            last_lines=trim_lines(child.last_lines),
        )
        self._write_troubles()
        self._warn(str(trouble))
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._stopping.wait()

    def _forget_trouble(self, child: Child) -> None:
        if self._troubles.pop(child.name, None) is not None:
            self._write_troubles()

    def _write_troubles(self) -> None:
        try:
            write_troubles(self._settings.data_dir, self._troubles.values())
        except OSError as error:
            # /healthz still sees by itself whether recorder and web work; it only lacks the lines.
            self._warn(f"children.json cannot be written: {error.strerror}")

    async def _stop_children(self) -> None:
        self._front.close()  # the proxy has the last copies now; when it ends, connections are refused
        grace_s = self._settings.drain_seconds + PROXY_GRACE_S
        await asyncio.gather(*(child.stop(grace_s) for child in self._workers.children))
        for service in self._services:
            await service.child.stop(service.grace_s)

    def _on_interrupt(self) -> None:
        if not self._stopping.is_set():
            self._request_stop()
            return
        self._warn("stopping at once; what was in flight is recorded at the next start")
        for child in (*self._workers.children, *(each.child for each in self._services)):
            child.kill()

    def _request_stop(self) -> None:
        is_serving = any(child.is_running for child in self._workers.children)
        if is_serving and not self._stopping.is_set():
            self._warn(
                f"stopping: streams in flight get up to {self._settings.drain_seconds:g} s"
                " (Ctrl-C again ends at once)"
            )
        self._stopping.set()

    def _begin_restart(self, environ: Mapping[str, str]) -> None:
        if self._restarting is None or self._restarting.done():
            self._restarting = asyncio.create_task(self._restart(environ))

    async def _restart(self, environ: Mapping[str, str]) -> None:
        """Replace the proxy's workers one by one, and print the result."""
        self._warn("replacing the proxy's workers; calls in flight end where they began")
        try:
            await self._workers.restart(self._keep, environ)
        except ChildError as error:
            self._warn(f"not all workers are replaced: {error}")
        else:
            self._warn("the proxy's workers are replaced")

    def _print_line_of(self, process: str, line: str) -> None:
        self._errors.write_line(wrap_line(process, line) if self._writes_json else line)

    def _warn(self, text: str) -> None:
        self._say(f"taximeter: {text}", "warning")

    def _say(self, text: str, level: str = "info") -> None:
        line = format_json_line("up", level, text) if self._writes_json else text
        self._errors.write_line(line)

    def close(self) -> None:
        """Release the lock, the sockets and their folder. To be called once no child runs any more."""
        self._errors.close()
        self._workers.close()
        self._front.close()
        self._web.close()
        os.close(self._parent_pipe_read)
        os.close(self._parent_pipe_write)
        shutil.rmtree(self._sockets, ignore_errors=True)
        self._lock.release()


def _make_socket_folder() -> Path:
    """Return a new private folder whose path is short enough for sockets."""
    here = tempfile.gettempdir()
    parent = here if len(os.fsencode(here)) < MAX_SOCKET_FOLDER - 20 else "/tmp"  # noqa: S108
    return Path(tempfile.mkdtemp(prefix="taximeter-", dir=parent))


def check_trust_store(path: str | None) -> None:
    """Raise StartError if ``path``, the SSL_CERT_FILE, cannot be used, since then every call would fail."""
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
