"""Databases that the recorder checks for changes, and the pace of these checks.

Nothing is read from them while ``pragma data_version`` says that nothing was written."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from runtime.trouble_log import TroubleLog
from store.control.database import ControlDatabase
from store.database import BUSY_TIMEOUT_MS, open_readonly
from store.traces.paths import FileId, identify_file


class PacedLooks:
    """Checks of databases that take only a small part of the recorder's time."""

    def __init__(
        self, clock_s: Callable[[], float], pause_s: float, pause_factor: float, trouble: TroubleLog
    ) -> None:
        """Pause after each check for ``pause_s``, or ``pause_factor`` times as long as the check took.

        The longer pause counts. ``clock_s`` is a monotonic clock in seconds."""
        self._clock_s = clock_s
        self._pause_s = pause_s
        self._pause_factor = pause_factor
        self._trouble = trouble
        self._not_before_s = 0.0

    def run(self, look: Callable[[], None]) -> None:
        """Run ``look`` if the pause is over. Never raises: an error is reported once, and ``look`` tried
        again."""
        began_s = self._clock_s()
        if began_s < self._not_before_s:
            return
        try:
            look()
        except Exception as error:  # calls are recorded whatever is wrong here
            self._trouble.report(str(error))
        else:
            self._trouble.clear()
        ended_s = self._clock_s()
        pause_s = max(self._pause_s, self._pause_factor * (ended_s - began_s))
        self._not_before_s = ended_s + pause_s


class WatchedControl:
    """A connection to ``control.db``, which may be replaced or may not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._id: FileId | None = None
        self._version = -1
        self.database: ControlDatabase | None = None

    def read_changed[Found](self, read: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """Return the result of ``read``, or None if nothing was written since or there is no database.

        Raises sqlite3.Error."""
        file_id = identify_file(self._path)
        if file_id != self._id or file_id is None:
            self.close()
        if file_id is None:
            return None
        if self.database is None:
            self.database = ControlDatabase(self._path)
            self._id = identify_file(self._path)
        with self.database.reading() as db:
            version = _read_version(db)
            if version == self._version:
                return None
            found = read(db)
            self._version = version
        return found

    def close(self) -> None:
        if self.database is not None:
            self.database.close()
        self.database, self._id, self._version = None, None, -1


class WatchedTraces:
    """A read-only connection to the traces of an organisation, which may be replaced or not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._id: FileId | None = None
        self._connection: sqlite3.Connection | None = None
        self._opened = 0

    def connect(self) -> sqlite3.Connection | None:
        """Return a connection to the present file, or None if there is none.

        Raises sqlite3.Error."""
        file_id = identify_file(self._path)
        if file_id != self._id:
            self.close()
        if file_id is not None and self._connection is None:
            self._connection = open_readonly(self._path, busy_timeout_s=BUSY_TIMEOUT_MS / 1000)
            self._id = file_id
            self._opened += 1
        return self._connection

    def read_version(self) -> tuple[int, int] | None:
        """Return a value that changes whenever the file may have changed, or None without a file.

        Raises sqlite3.Error."""
        connection = self.connect()
        return None if connection is None else (self._opened, _read_version(connection))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._id = None, None


def _read_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes when another connection has committed."""
    (version,) = connection.execute("pragma data_version").fetchone()
    return int(version)
