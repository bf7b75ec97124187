"""``runs.lock``: the lock held by the ``taximeter run`` processes that use the service.

Each holds the lock shared for as long as it lives; the kernel releases it however a process ends. A
service that was started for a run waits for the lock exclusively, and then ends: so it ends after the
last run that used it, even if that run was killed. While the service ends it keeps the lock, and the
next run waits for that instead of using a service that is ending."""

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

NAME = "runs.lock"


class RunLock:
    """The shared lock of one run."""

    def __init__(self, data_dir: Path) -> None:
        """Take the lock, waiting until the service of an earlier run has ended. Raises OSError."""
        self._fd = _open(data_dir)
        fcntl.flock(self._fd, fcntl.LOCK_SH)

    def is_last(self) -> bool:
        """Return whether no other run uses the service. If so, no other can start until ``release``."""
        if self._try(fcntl.LOCK_EX):
            return True
        # Taking it alone gives it up first, so the service itself may have it now: it ends.
        return not self._try(fcntl.LOCK_SH)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self._fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Release the lock. May be called again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def watch(data_dir: Path, on_unused: Callable[[], None]) -> None:
    """Call ``on_unused`` from a thread once no run uses the service any more. Raises OSError."""
    fd = _open(data_dir)

    def wait() -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)  # kept until this process ends
        on_unused()

    threading.Thread(target=wait, name="runs", daemon=True).start()


def _open(data_dir: Path) -> int:
    return os.open(data_dir / NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
