"""How much of the disk bodies may still take.

The disk reserve is for usage. Bodies are stored as long as the reserve is free after them. Below it,
only a body that is tiny beside what is left: however many of these come, what is left shrinks ever
more slowly and is not used up by them.
"""

import os
from collections.abc import Callable
from pathlib import Path

TINY_SHARE = 1 << 14  # of 1 GB that is 64 KB
WRITTEN_TIMES = 2  # into the write-ahead log, and from there into the database
MEASURED_EVERY_S = 0.1


class DiskRoom:
    """The room on the disk of ``folder``, asked for now and then and counted in between."""

    def __init__(self, folder: Path, reserve_bytes: int, clock_s: Callable[[], float]) -> None:
        self._folder = folder
        self._reserve_bytes = reserve_bytes
        self._clock_s = clock_s
        self._free_bytes = 0
        self._measure_at_s = clock_s()

    def admit(self, size: int) -> bool:
        """May a body of that many bytes be stored? It is counted if so."""
        now_s = self._clock_s()
        if now_s >= self._measure_at_s:
            disk = os.statvfs(self._folder)
            self._free_bytes = disk.f_bavail * disk.f_frsize
            self._measure_at_s = now_s + MEASURED_EVERY_S
        needed = WRITTEN_TIMES * size
        is_admitted = (
            self._free_bytes - needed >= self._reserve_bytes
            or needed * TINY_SHARE <= self._free_bytes
        )
        if is_admitted:
            self._free_bytes -= needed
        return is_admitted
