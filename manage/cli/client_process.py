"""The client process of a run, in the foreground.

It stays in our process group, so it has the terminal, and the terminal's own signals (Ctrl-C, Ctrl-Z,
a new window size) reach it directly. Signals that only our process gets are forwarded to it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

NOT_FOUND_STATUS, NOT_EXECUTABLE_STATUS = 127, 126  # those of a shell
_FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)


class ClientError(Exception):
    """The client cannot be started. ``status`` is the exit status that a shell has in that case."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def check_client(name: str) -> None:
    """Check that a command exists and is executable. Raises ClientError."""
    if shutil.which(name) is not None:
        return
    if os.sep in name and os.path.exists(name):  # noqa: PTH110 - a command, not a path of ours
        raise ClientError(f"{name} cannot be executed", NOT_EXECUTABLE_STATUS)
    raise ClientError(f"{name}: command not found", NOT_FOUND_STATUS)


def run_client(
    command: Sequence[str],
    environ: Mapping[str, str],
    on_start: Callable[[int], object] = lambda _pid: None,
) -> int:
    """Run a client until it ends. Return its exit status, or 128 + n if signal n ended it.

    ``on_start`` is called with the process id. Raises ClientError."""
    with _forwarding_signals() as forwarder:
        try:
            # Descriptors inherited from a shell, such as /dev/fd/63, are for the client; our own
            # descriptors are closed when it starts.
            process = subprocess.Popen(command, env=environ, close_fds=False)  # noqa: S603
        except OSError as error:
            raise ClientError(f"{command[0]}: {error.strerror}", NOT_EXECUTABLE_STATUS) from error
        on_start(process.pid)
        forwarder.start(process)
        status = process.wait()
    return status if status >= 0 else 128 - status


class _SignalForwarder:
    """Forwards signals to the client. Those that arrive earlier are sent at the client's start."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def start(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        for number in self._early:
            process.send_signal(number)

    def take(self, number: int, _frame: FrameType | None) -> None:
        if number in _KEYBOARD and _is_foreground():
            return  # the client has got it too
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)


@contextmanager
def _forwarding_signals() -> Iterator[_SignalForwarder]:
    forwarder = _SignalForwarder()
    # Handlers are functions even where nothing is to be done: the client would inherit SIG_IGN. And
    # a signal that is ignored on purpose, as under nohup, stays ignored in both processes.
    changed = {
        number: signal.signal(number, forwarder.take)
        for number in (*_FORWARDED, *_KEYBOARD)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield forwarder
    finally:
        for number, handler in changed.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Return whether our process group is the foreground group of the terminal."""
    for stream in (sys.stdin, sys.stderr, sys.stdout):
        with suppress(OSError, ValueError, AttributeError):  # not a terminal, closed, or missing
            return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    return False
