"""Databases that the recorder looks at for what has changed.

Nothing is read from them while ``pragma data_version`` says that nothing was written.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from store.control.database import ControlDatabase
from store.database import BUSY_TIMEOUT_MS, open_readonly
from store.traces.paths import FileId, identify_file


class WatchedControl:
    """A connection to ``control.db``, which may be replaced or not there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._id: FileId | None = None
        self._version = -1
        self.database: ControlDatabase | None = None

    def read_changed[Found](self, read: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """Return what is read, None where nothing was written since or there is no database.

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
    """A read-only connection to the traces of an organisation, which may be replaced or not there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._id: FileId | None = None
        self._connection: sqlite3.Connection | None = None
        self._opened = 0

    def connect(self) -> sqlite3.Connection | None:
        """Return a connection to the file that is there now, None where there is none.

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
        """Return what differs when something may have been written, None without a file.

        Raises sqlite3.Error."""
        connection = self.connect()
        return None if connection is None else (self._opened, _read_version(connection))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._id = None, None


def _read_version(connection: sqlite3.Connection) -> int:
    """Return a number that differs when another connection has committed something."""
    (version,) = connection.execute("pragma data_version").fetchone()
    return int(version)
