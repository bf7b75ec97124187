"""A proxy for a trial: with the program and the settings of a service, and none of its data."""

import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from manage.supervision.child_environ import without_credentials
from runtime import extensions, parent_watch, readiness
from runtime.setting import PREFIX
from runtime.settings import without_web_settings
from store.control.database import ControlDatabase
from store.spool import reader
from store.spool.format import SpooledExchange

START_S, END_S = 30.0, 10.0
SLUG = "default"
# What a trial has of its own. Prices are for the recorder; limits of the disk are another check.
_OWN = ("BASE_URL", "DATA_DIR", "DISK_RESERVE", "LISTEN", "PRICES", "UPSTREAM_URL", "WORKERS")


class TrialError(Exception):
    """The trial proxy does not start. The message is the last line that it printed."""


@dataclass(frozen=True, slots=True)
class TrialProxy:
    """A running trial proxy, and the folder of its spool."""

    host: str
    port: int
    spool: Path

    def read_spooled(self) -> list[SpooledExchange]:
        """Return the exchanges in its spool, oldest first. Raises OSError, SpoolError."""
        found = (reader.read_exchange(each.path) for each in reader.find_waiting(self.spool))
        return [each for each in found if each is not None]


@contextmanager
def run_trial_proxy(variables: Mapping[str, str], upstream_url: str) -> Iterator[TrialProxy]:
    """Run a proxy with the settings in ``variables`` in front of ``upstream_url``.

    Raises TrialError, OSError."""
    with (
        tempfile.TemporaryDirectory(prefix="taximeter-doctor-") as folder,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        data_dir = Path(folder) / "data"
        with ControlDatabase(data_dir / "control.db") as control:
            control.set_up()
        environ = _make_environ(variables) | {
            f"{PREFIX}DATA_DIR": str(data_dir),
            f"{PREFIX}UPSTREAM_URL": upstream_url,
            f"{PREFIX}DISK_RESERVE": "0",
        }
        with _running(environ, listener):
            host, port = listener.getsockname()
            yield TrialProxy(host, port, data_dir / "spool")


def _make_environ(variables: Mapping[str, str]) -> dict[str, str]:
    # It is alone, and the passwords of extensions are not in what a service writes down.
    of_extensions = (
        setting.variable
        for groups in extensions.call().settings()
        for setting in chain(*groups.values())
    )
    own = {*(PREFIX + name for name in _OWN), *of_extensions}
    ours = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    theirs = {name: text for name, text in variables.items() if name not in own}
    return without_credentials(without_web_settings(ours | theirs))


@contextmanager
def _running(environ: Mapping[str, str], listener: socket.socket) -> Iterator[None]:
    ready_read, ready_write = os.pipe()
    parent_read, parent_write = os.pipe()  # so that it ends with us, however that is
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-O", "-m", "addon", "--listen-fd", str(listener.fileno())],
                env={
                    **environ,
                    readiness.VARIABLE: str(ready_write),
                    parent_watch.VARIABLE: str(parent_read),
                },
                pass_fds=(listener.fileno(), ready_write, parent_read),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        finally:
            os.close(ready_write)
            os.close(parent_read)
        try:
            # At its end the pipe can be read too, and has nothing.
            is_ready = select.select([ready_read], [], [], START_S)[0] and os.read(ready_read, 1)
            if not is_ready:
                output.seek(0)
                lines = output.read().decode(errors="replace").splitlines()
                raise TrialError(lines[-1] if lines else "it printed nothing")
            yield
        finally:
            os.close(ready_read)
            os.close(parent_write)
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
