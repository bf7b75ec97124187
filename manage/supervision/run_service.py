"""The service of a run: the one that runs on the data directory, or one started for the run.

A service that is started here is a process in a session of its own, so that the keys typed at the
terminal reach the client alone. It writes to ``run.log`` in the data directory, and ends after the
last run that uses it.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import httpx

from manage.data_dir import prepare_data_dir
from manage.supervision.announcement import find_running
from manage.supervision.child_environ import without_credentials
from manage.supervision.run_lock import RunLock
from runtime.errors import StartError
from runtime.http_proxies import UserProxies
from runtime.safe_text import terminal_line
from runtime.settings import Settings

LOG_NAME = "run.log"
START_S, STOP_S = 60.0, 60.0
POLL_S = 0.1
LAST_LINES = 20
ANY_PORT = "127.0.0.1:0"
_UPSTREAM_PROXY = "TAXIMETER_UPSTREAM_PROXY"
_LISTEN, _WORKERS = "TAXIMETER_LISTEN", "TAXIMETER_WORKERS"


class RunService:
    """The service that a run uses, found or started.

    ``settings`` are its settings, ``address`` is its URL on this machine, and ``base_url`` its URL for
    people. ``print_line`` prints a message for the user."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], print_line: Callable[[str], None]
    ) -> None:
        """Find the service on the data directory, or start one and wait until it is healthy.

        Raises StartError, SettingsError, OSError."""
        self._data_dir = settings.data_dir.absolute()
        self._print_line = print_line
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        if warning := prepare_data_dir(self._data_dir):
            print_line(warning)
        self._lock = RunLock(self._data_dir)
        try:
            if find_running(self._data_dir) is None:
                print_line(
                    f"starting the service; it writes to {terminal_line(str(self.log_path))}"
                )
                self._start(settings, choose_listen(settings, environ))
            running = self._wait()
        except StartError:
            self._lock.release()
            raise
        except BaseException:
            self.close()
            raise
        self.settings = running
        self.address = f"http://{running.listen.connectable}"
        self.base_url = running.base_url

    @property
    def log_path(self) -> Path:
        """Return the path of the log of a service that is started here."""
        return self._data_dir / LOG_NAME

    @property
    def is_running(self) -> bool:
        """Return whether the service keeps running after ``close``."""
        return self._process is None

    def close(self) -> None:
        """End the service if it was started here and no other run uses it. May be called again."""
        if self._process is not None and not self._is_closed:
            self._end(self._process)
        self._is_closed = True
        self._lock.release()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            self._print_line(f"the service has ended during the run{self._quote_log()}")
        elif not self._lock.is_last():
            self._process = None  # other runs use it; it ends after the last of them
        else:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._print_line(f"the service did not stop within {STOP_S:g} s and is killed")
                process.kill()  # its children end with it
                process.wait()

    def _start(self, settings: Settings, listen: str) -> None:
        environ = {
            _WORKERS: "1",  # it is for one person, unless they say otherwise
            **_take_proxy(settings, os.environ),
            **without_credentials(os.environ),
            "TAXIMETER_DATA_DIR": str(self._data_dir),
            _LISTEN: listen,
        }
        command = [sys.executable, "-P", "-m", "manage.cli.main", "up", "--until-unused"]
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        log_fd = os.open(self.log_path, flags, 0o600)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log_fd)

    def _wait(self) -> Settings:
        """Wait until a found service responds or a started one is healthy, and return its settings.

        Raises StartError after ``START_S``, or if the started one ends."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            announcement = find_running(self._data_dir)
            if announcement is not None:
                self._settle_for(announcement.pid)
                running = announcement.settings(self._data_dir)
                path = "/livez" if self._process is None else "/healthz"
                if _is_ok(f"http://{running.listen.connectable}{path}"):
                    return running
            elif self._process is not None and self._process.poll() is not None:
                raise StartError(f"the service could not start{self._quote_log()}")
            time.sleep(POLL_S)
        raise StartError(
            f"the service on {self._data_dir} does not respond; `taximeter doctor` may tell why"
        )

    def _settle_for(self, pid: int) -> None:
        """Use the service with process ``pid`` if it is not the one started here.

        The one started here has ended then, since it got no lock."""
        if self._process is not None and self._process.pid != pid:
            self._process.wait()
            self._process = None

    def _quote_log(self) -> str:
        """Return the last lines of the log, as text to append to a message."""
        with suppress(OSError), self.log_path.open(errors="replace") as log:
            lines = deque((terminal_line(line.rstrip("\n")) for line in log), LAST_LINES)
            return f". The last lines of {self.log_path}:\n" + "\n".join(f"  {x}" for x in lines)
        return f"; see {self.log_path}"


def _take_proxy(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that makes a service use the user's HTTP proxy for the upstream, empty if none."""
    upstream = settings.upstream_url
    proxies = UserProxies.of(environ)
    with suppress(ValueError):  # of another kind, such as SOCKS
        if upstream.scheme == "https" and proxies.find(upstream.host, upstream.port) is not None:
            return {_UPSTREAM_PROXY: proxies.text}
    return {}


def choose_listen(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return the configured or default listen address.

    If none is configured and the default is in use, return one with a free port."""
    if environ.get(_LISTEN, "").strip() or _is_free(settings):
        return str(settings.listen)
    return ANY_PORT


def _is_free(settings: Settings) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.listen.host, settings.listen.port))
        except OSError:
            return False
    return True


def _is_ok(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5.0, trust_env=False).status_code == 200
    return False
