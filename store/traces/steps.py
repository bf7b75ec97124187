"""Long work on a database that others write to, as a series of short transactions.

Such work is a generator that yields where it may be interrupted: no transaction is open there, and
the remaining work is noted in the database or can be found again. The caller decides on the pauses:
a command sleeps (``run``), and the recorder records calls between two steps."""

import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

from store import database

LOCK_S = 0.02
PAUSE_S = 0.03  # longer than the longest sleep of SQLite's busy handler, so that a waiting recorder gets the lock
PATIENCE_MS = 10_000  # no client waits for such work, so it can wait for all others

type Steps[Result] = Generator[None, None, Result]
type Pause = Callable[[float], object]


class Step:
    """The time limit of one transaction under the write lock. It allows at least one item."""

    def __init__(self) -> None:
        self._end = time.monotonic() + LOCK_S
        self._has_begun = False

    @property
    def has_time(self) -> bool:
        """Return whether there is time for one more item; always True the first time."""
        has_begun, self._has_begun = self._has_begun, True
        return not has_begun or time.monotonic() < self._end


def in_steps(connection: sqlite3.Connection, work: Callable[[Step], bool]) -> Steps[None]:
    """Run ``work`` in one transaction after the other, and yield after each, until it returns True."""
    is_done = False
    while not is_done:
        with database.immediate(connection):
            is_done = work(Step())
        yield


def run[Result](steps: Steps[Result], pause: Pause = time.sleep) -> Result:
    """Run all steps, with a pause after each, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        pause(PAUSE_S)


@contextmanager
def patient(connection: sqlite3.Connection) -> Iterator[None]:
    """Let a connection wait for the write lock for ``PATIENCE_MS`` instead of its usual timeout."""
    usual = read_pragma(connection, "busy_timeout")
    connection.execute(f"PRAGMA busy_timeout={PATIENCE_MS}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout={usual}")


def read_pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the integer value of a PRAGMA."""
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
