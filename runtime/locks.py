"""Locks on files, which the kernel releases however their process ends."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path


class LockHeldError(Exception):
    """Another process holds the lock; ``pid`` is its id, None if unknown."""

    def __init__(self, path: Path, pid: int | None) -> None:
        super().__init__(f"{path} is held by process {pid or 'unknown'}")
        self.pid = pid


class ProcessLock:
    """An exclusive lock on a file that names its holder. Held until ``release`` or the end of the process."""

    def __init__(self, path: Path) -> None:
        """Take the lock. Raises LockHeldError, OSError."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = _read_pid(self._fd)
            os.close(self._fd)
            raise LockHeldError(path, pid) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds a lock. ``pid`` is None if it is not known."""

    pid: int | None


def find_holder(path: Path) -> Holder | None:
    """Return the process that holds this lock, or None. Raises OSError.

    The check takes a shared lock for an instant."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Holder(_read_pid(fd))
    finally:
        os.close(fd)
    return None


def _read_pid(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
