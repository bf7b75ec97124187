"""The board of the proxy's workers: a row of numbers for each, in shared memory that all can read.

A row is written by its own worker only, without a lock, and read by all: to add up what is limited
over all workers, and for ``/healthz``. The supervisor assigns the rows, and clears a row when its
process has ended, so that dead processes count nothing. During a restart a worker and its successor
have a row each."""

import mmap
import os
import sys
import time
import zlib
from collections.abc import Iterator
from enum import IntEnum, auto
from typing import Self

from runtime import shared_memory

FRESH_FOR_S = 5.0
# Client addresses share this many sums. Two that meet in one are limited as one, where different
# workers serve them.
ADDRESS_SUMS = 1024
_NUMBERS, _TEXT_BYTES = 32, 256
_CELL_BYTES = 8


class Shared(IntEnum):
    """The sums over all workers; the value is the place of a sum in a row."""

    CONNECTIONS = 0
    BODY_BYTES = auto()
    BODY_BYTES_OF_NOBODY = auto()
    WEB_SLOTS = auto()
    WEB_SLOTS_OF_NOBODY = auto()
    CALLS_NOT_KEPT = auto()
    RESPONSES_NOT_KEPT = auto()
    REQUEST_BODIES_NOT_KEPT = auto()
    CONNECTIONS_REFUSED = auto()
    LARGE_HEADS_REFUSED = auto()
    SLOW_HEADS_REFUSED = auto()


_NUMBER, _IS_SERVING, _BEAT_NS, _TEXT_LENGTH = range(_NUMBERS - 4, _NUMBERS)
_TABLES = {Shared.BODY_BYTES: 0, Shared.WEB_SLOTS: 1, Shared.CONNECTIONS: 2}
_ROW_CELLS = _NUMBERS + len(_TABLES) * ADDRESS_SUMS + _TEXT_BYTES // _CELL_BYTES
_ROW_BYTES = _ROW_CELLS * _CELL_BYTES


def create(workers: int) -> int:
    """Return the descriptor of shared memory with two rows for each worker. Raises OSError."""
    return shared_memory.create(2 * workers * _ROW_BYTES)


def clear(fd: int, row: int) -> None:
    """Clear the row of a process that has ended. Raises OSError."""
    os.pwrite(fd, bytes(_ROW_BYTES), row * _ROW_BYTES)


def read_total(fd: int, shared: Shared) -> int:
    """Return a sum over all workers, in a process that is not a worker. Raises OSError."""
    starts = range(0, os.fstat(fd).st_size, _ROW_BYTES)
    cells = (os.pread(fd, _CELL_BYTES, start + shared * _CELL_BYTES) for start in starts)
    return sum(int.from_bytes(cell, sys.byteorder, signed=True) for cell in cells)


def is_any_serving(fd: int) -> bool:
    """Return whether a worker accepts connections, in a process that is not a worker. Raises OSError."""
    starts = range(0, os.fstat(fd).st_size, _ROW_BYTES)
    return any(
        any(os.pread(fd, _CELL_BYTES, start + _IS_SERVING * _CELL_BYTES)) for start in starts
    )


class WorkerBoard:
    """The rows of all workers, as used by one worker."""

    def __init__(self, fd: int, row: int, number: int = 1) -> None:
        """Map the memory of ``create``. ``number`` names this worker in messages."""
        self._bytes = memoryview(mmap.mmap(fd, 0))
        self._cells = self._bytes.cast("q")
        self._own = row * _ROW_CELLS
        self._rows = range(0, len(self._cells), _ROW_CELLS)
        self._others = [start for start in self._rows if start != self._own]
        self._cells[self._own + _NUMBER] = number

    @classmethod
    def alone(cls) -> Self:
        """Return the board of a single worker, not shared with others. Raises OSError."""
        fd = shared_memory.create(_ROW_BYTES)
        try:
            return cls(fd, 0)
        finally:
            os.close(fd)

    # -- sums ---------------------------------------------------------------------------------------

    def put(self, shared: Shared, amount: int) -> None:
        """Set this worker's amount of a sum."""
        self._cells[self._own + shared] = amount

    def add(self, shared: Shared, amount: int) -> None:
        """Add to this worker's amount of a sum."""
        self._cells[self._own + shared] += amount

    def add_for(self, shared: Shared, address: str, amount: int) -> None:
        """Add to this worker's amount of a sum for a client address."""
        self._cells[self._own + _place(shared, address)] += amount

    def of_others(self, shared: Shared) -> int:
        """Return a sum over all other workers."""
        cells = self._cells
        return sum([cells[start + shared] for start in self._others])

    def of_others_for(self, shared: Shared, address: str) -> int:
        """Return a sum for a client address over all other workers.

        Several addresses may share one place, and count together then."""
        cells, place = self._cells, _place(shared, address)
        return sum([cells[start + place] for start in self._others])

    def total(self, shared: Shared) -> int:
        """Return a sum over all workers."""
        return self._cells[self._own + shared] + self.of_others(shared)

    # -- state --------------------------------------------------------------------------------------

    def begin_serving(self) -> None:
        """Note that this worker accepts connections."""
        self.beat(time.monotonic())
        self._cells[self._own + _IS_SERVING] = 1

    def end_serving(self) -> None:
        """Note that this worker accepts no more connections."""
        self._cells[self._own + _IS_SERVING] = 0

    def beat(self, now_s: float) -> None:
        """Note that the event loop of this worker is running."""
        self._cells[self._own + _BEAT_NS] = int(now_s * 1e9)

    def count_missing(self) -> int:
        """Return the number of workers that do not accept connections."""
        cells = self._cells
        serving = {cells[start + _NUMBER] for start in self._rows if cells[start + _IS_SERVING]}
        return max(0, len(self._rows) // 2 - len(serving))

    def has_most_connections(self) -> bool:
        """Return whether this worker has over an eighth more connections than another serving worker."""
        cells = self._cells
        fewest = min(
            (
                cells[start + Shared.CONNECTIONS]
                for start in self._others
                if cells[start + _IS_SERVING]
            ),
            default=None,
        )
        own = cells[self._own + Shared.CONNECTIONS]
        return fewest is not None and own > fewest + fewest // 8

    def put_trouble(self, trouble: str | None) -> None:
        """Publish the current failure of this worker, or None."""
        data = (trouble or "").encode()[:_TEXT_BYTES]
        start = (self._own + _ROW_CELLS) * _CELL_BYTES - _TEXT_BYTES
        self._bytes[start : start + len(data)] = data
        self._cells[self._own + _TEXT_LENGTH] = len(data)

    def troubles_of_others(self) -> Iterator[str]:
        """Yield the current failures of other serving workers, each with its number."""
        now_ns = time.monotonic_ns()
        for start in self._others:
            if not self._cells[start + _IS_SERVING]:
                continue  # the supervisor tells who is down
            number = self._cells[start + _NUMBER]
            if now_ns - self._cells[start + _BEAT_NS] > FRESH_FOR_S * 1e9:
                yield f"worker {number} of the proxy does not respond"
            text_start = (start + _ROW_CELLS) * _CELL_BYTES - _TEXT_BYTES
            length = self._cells[start + _TEXT_LENGTH]
            text = bytes(self._bytes[text_start : text_start + length]).decode(errors="replace")
            if text:
                yield text


def _place(shared: Shared, address: str) -> int:
    sums = _NUMBERS + _TABLES[shared] * ADDRESS_SUMS
    return sums + zlib.crc32(address.encode()) % ADDRESS_SUMS
