"""A file that reserves disk space until it is needed.

The file is made while there is plenty of space. When a write finds the disk full, the file is
shortened step by step and the write is retried: so data that must not be lost still fits, even if
another program fills the disk at the same time and uses a part of each step."""

import errno
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

STEP_BYTES = 1024 * 1024
SMALLEST_SHARE = 20  # of a small disk no more than a twentieth is held
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_CANNOT_ALLOCATE = frozenset(
    {errno.EOPNOTSUPP, errno.EINVAL}
)  # which of them, systems disagree about


class ReserveFile:
    """A file that reserves disk space. ``is_tapped``: some of its space was given away and is not back
    yet."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.is_tapped = False
        self._path = path
        self._size_bytes = size_bytes
        self._held_bytes = 0
        self._reported: str | None = None

    def fill(self) -> None:
        """Fill the file up to its size, if that leaves as much space free on the disk.

        Space that a killed process left in the file counts. Until the disk is full all works without
        the file, so a failure to fill it is only logged, once. Raises FileNotFoundError if the folder
        is gone."""
        try:
            self._fill()
        except FileNotFoundError:
            raise
        except OSError as error:
            if self._reported != str(error):
                logger.warning(
                    "No room can be held for when the disk is full (%s): %s",
                    self._path,
                    error.strerror or error,
                )
            self._reported = str(error)
        else:
            self._reported = None

    def _fill(self) -> None:
        disk = os.statvfs(self._path.parent)
        size = min(self._size_bytes, disk.f_blocks * disk.f_frsize // SMALLEST_SHARE)
        if not self._held_bytes:
            self._take_over(size)
        needed = size - self._held_bytes
        if needed <= 0 or disk.f_bavail * disk.f_frsize < needed + size:
            return
        fd = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            _allocate(fd, size)
        except OSError as error:  # such as a quota, which the file system does not report
            os.ftruncate(fd, self._held_bytes)
            if error.errno not in NO_ROOM:
                raise
            return
        finally:
            os.close(fd)
        self._held_bytes = size
        self.is_tapped = False

    def _take_over(self, size: int) -> None:
        """Count the space in the reserve file of a process that has ended as this one's."""
        with suppress(FileNotFoundError):
            if left := self._path.stat().st_size:
                self._held_bytes = min(left, size)
                self.is_tapped = left < size

    def release(self, needed_bytes: int) -> bool:
        """Free ``needed_bytes`` or what is left of the file. Return False if nothing is left."""
        self.is_tapped = True
        if not self._held_bytes:
            return False
        left = max(0, self._held_bytes - max(STEP_BYTES, needed_bytes))
        self._held_bytes = 0  # so that ``retry`` ends, whatever happens next
        try:
            os.truncate(self._path, left)
        except OSError:
            return False
        self._held_bytes = left
        return True

    def retry[T](self, needed_bytes: int, write: Callable[[], T]) -> T:
        """Run ``write``, which needs ``needed_bytes``, with space from this file if the disk is full.

        Raises what ``write`` raises."""
        while True:
            try:
                return write()
            except OSError as error:
                if error.errno not in NO_ROOM or not self.release(needed_bytes):
                    raise

    def remove(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)
        self._held_bytes = 0


def _allocate(fd: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno not in _CANNOT_ALLOCATE:
                raise
        else:
            return
    for start in range(0, size, STEP_BYTES):
        os.pwrite(fd, bytes(min(STEP_BYTES, size - start)), start)
