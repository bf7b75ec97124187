"""The decision for which bodies the disk has room.

The disk reserve is for usage. Bodies are stored as long as the reserve is still free after them.
Below it, only a body that is tiny compared to the free space is stored: however many of these come,
the free space shrinks ever more slowly and is not used up by them. If others have filled the disk
all the same, a reserve file gives room for usage."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from runtime.reserve_file import NO_ROOM, STEP_BYTES, ReserveFile

TINY_SHARE = 1 << 14  # of 1 GB that is 64 KB
WRITTEN_TIMES = 2  # into the write-ahead log, and from there into the database
RESERVE_BYTES = 32 * 1024 * 1024  # rows without bodies: some ten thousand calls
FULL_BELOW_BYTES = 1024 * 1024
# What SQLite says when the files beside a database cannot grow, and also for other reasons.
_AMBIGUOUS_ERRORS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)


class DiskRoom:
    """The free space on the disk of ``folder``, measured before each batch and reduced by each body."""

    def __init__(self, folder: Path, reserve_bytes: int) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._free_bytes = 0
        self._reserve = ReserveFile(folder / "recorder.reserve", RESERVE_BYTES)

    @property
    def is_short(self) -> bool:
        """Return whether a part of the reserve file was released and is not refilled yet."""
        return self._reserve.is_tapped

    def measure(self) -> None:
        """Measure the free space. Raises OSError."""
        disk = os.statvfs(self._folder)
        self._free_bytes = disk.f_bavail * disk.f_frsize

    def admit(self, size: int) -> bool:
        """Return whether a body of ``size`` bytes may be stored; if so, count it as stored."""
        needed = WRITTEN_TIMES * size
        is_admitted = (
            self._free_bytes - needed >= self._reserve_bytes
            or needed * TINY_SHARE <= self._free_bytes
        )
        if is_admitted:
            self._free_bytes -= needed
        return is_admitted

    def is_full(self, error: Exception) -> bool:
        """Return whether an error means that the disk is full. Raises OSError."""
        if isinstance(error, sqlite3.OperationalError):
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                return True
            self.measure()
            return code in _AMBIGUOUS_ERRORS and self._free_bytes < FULL_BELOW_BYTES
        return isinstance(error, OSError) and error.errno in NO_ROOM

    def retry(self, write: Callable[[], None]) -> None:
        """Run ``write``, with room from the reserve file if the disk is full. Raises OSError."""
        self._reserve.retry(STEP_BYTES, write)

    def make_room(self) -> bool:
        """Release a part of the reserve file; return whether there was any left."""
        return self._reserve.release(STEP_BYTES)

    def refill(self) -> None:
        """Refill the reserve file if there is plenty of room. Raises FileNotFoundError."""
        self._reserve.fill()

    def close(self) -> None:
        self._reserve.remove()
