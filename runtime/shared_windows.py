"""Moving windows that processes share: an exact limit on the admissions of a name in any minute.

A window is a ring of places, one for each admission that the limit allows, and each place holds the
time from which it is free again. Admissions use the places in turn. So no place is used twice within a
minute, even if the counter of turns is wrong, and a process that is killed at any moment leaves a
correct window: a turn without its place was never admitted.

Each window has its own lock, on one byte of the file (``fcntl``), which the kernel releases when its
process ends. It is held for some microseconds. Times are of the monotonic clock, which all processes
share until the next boot."""

import fcntl
import logging
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Self

from runtime import shared_memory

logger = logging.getLogger(__name__)

WINDOW_S = 60.0
MOST_PLACES = 600
# Windows that are in use within one minute. Those beyond are not limited, which is logged.
CAPACITY = 16_384
_KEY_BYTES, _CELL_BYTES = 16, 8


def create(capacity: int = CAPACITY) -> int:
    """Return the descriptor of shared memory for ``capacity`` windows. Raises OSError."""
    cells = capacity * (2 + MOST_PLACES) + 1
    return shared_memory.create(capacity * _KEY_BYTES + cells * _CELL_BYTES)


class SharedWindows:
    """The windows in shared memory, as used by one process. It is not thread-safe."""

    def __init__(self, fd: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Map the memory of ``create``. The descriptor stays open, and only this object may use it."""
        self._fd = fd
        self._clock_s = clock_s
        self._map = mmap.mmap(fd, 0)
        self._capacity = capacity = (len(self._map) - _CELL_BYTES) // (
            _KEY_BYTES + (2 + MOST_PLACES) * _CELL_BYTES
        )
        memory = memoryview(self._map)
        end = capacity * _KEY_BYTES
        size = capacity * _CELL_BYTES
        self._busy_until_s = memory[end : end + size].cast("d")
        self._turns = memory[end + size : end + 2 * size].cast("q")
        self._used = memory[end + 2 * size : end + 2 * size + _CELL_BYTES].cast("q")
        self._free_at_s = memory[end + 2 * size + _CELL_BYTES :].cast("d")
        self._found: dict[str, tuple[int, bytes]] = {}  # by name: the window and its key
        self._is_full = False

    @classmethod
    def alone(cls) -> Self:
        """Return windows that are not shared with other processes. Raises OSError."""
        return cls(create())

    def close(self) -> None:
        """Close the descriptor. The windows cannot be used afterwards."""
        os.close(self._fd)

    def admit(self, name: str, limit: int) -> float:
        """Count a request if it is admitted. Return 0 if so, else the seconds until one is admitted.

        The limit of a name must never change, and is at most ``MOST_PLACES``."""
        while True:
            window, key = self._found.get(name) or self._find(name)
            if window < 0:
                return 0.0
            place = window * _KEY_BYTES
            fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, window)
            try:
                if self._map[place : place + _KEY_BYTES] == key:
                    return self._take_place(window, limit)
            finally:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, window)
            del self._found[name]  # it was idle, and belongs to another name by now

    def _take_place(self, window: int, limit: int) -> float:
        now_s = self._clock_s()
        turn = self._turns[window]
        place = window * MOST_PLACES + turn % limit
        wait_s = self._free_at_s[place] - now_s
        if wait_s > 0:
            return wait_s
        # In this order: a window with a place that is taken must not look idle.
        self._busy_until_s[window] = now_s + WINDOW_S
        self._turns[window] = turn + 1
        self._free_at_s[place] = now_s + WINDOW_S
        return 0.0

    def _find(self, name: str) -> tuple[int, bytes]:
        """Return the window of a name and the name's key; if it has none, an idle window is taken.

        The window is -1 if all are in use."""
        key = blake2b(name.encode(), digest_size=_KEY_BYTES).digest()
        with self._locked(self._capacity):
            window = self._find_key(key)
            if window is None:
                window = self._take_window(key)
        if window is None:
            if not self._is_full:
                logger.error("%d rate limits are in use: others are not kept", self._capacity)
            self._is_full = True
            return -1, key
        if len(self._found) >= self._capacity:
            self._found.clear()
        self._found[name] = window, key
        return window, key

    def _find_key(self, key: bytes) -> int | None:
        place = self._map[: self._used[0] * _KEY_BYTES].find(key)
        return None if place < 0 else place // _KEY_BYTES

    def _take_window(self, key: bytes) -> int | None:
        """Assign an idle window, all of whose places are free, to a key. Return None if there is none."""
        now_s = self._clock_s()
        used = self._used[0]
        for window in range(min(used + 1, self._capacity)):
            if self._busy_until_s[window] <= now_s and self._give(window, key, now_s):
                self._used[0] = max(used, window + 1)
                return window
        return None

    def _give(self, window: int, key: bytes, now_s: float) -> bool:
        with self._locked(window):
            if self._busy_until_s[window] > now_s:  # another process has just admitted something
                return False
            place = window * _KEY_BYTES
            self._map[place : place + _KEY_BYTES] = key
            return True

    @contextmanager
    def _locked(self, byte: int) -> Iterator[None]:
        """Hold the lock of a window, or that of the list of windows, which is the byte after all windows."""
        fcntl.lockf(self._fd, fcntl.LOCK_EX, 1, byte)
        try:
            yield
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, byte)
