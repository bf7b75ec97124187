"""Connections to trace databases that stay open from one page to the next.

For a new connection SQLite reads the schema and compiles every statement, which together takes longer
than reading what a page shows. An idle connection holds no transaction, so it blocks no writer.
"""

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store import database
from store.traces.paths import FileId, identify_file

BUSY_TIMEOUT_S = 1.0
MAX_KEPT = 16


class KeptConnections:
    """The read-only connections that were used last, at most ``MAX_KEPT`` and one for each file. A thread
    that borrows one has it alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, tuple[FileId | None, sqlite3.Connection]] = OrderedDict()

    @contextmanager
    def lend(self, path: Path) -> Iterator[sqlite3.Connection]:
        """Lend a connection to a file until the end of the block. It is closed if the block raises an
        error.

        Raises sqlite3.Error if there is no such file."""
        # Looked at before it is opened: of a file that is replaced meanwhile, the next one to borrow
        # finds another id.
        file_id = identify_file(path)
        connection = self._take(path, file_id)
        if connection is None:
            connection = database.open_readonly(
                path, busy_timeout_s=BUSY_TIMEOUT_S, any_thread=True
            )
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._keep(path, file_id, connection)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            while self._kept:
                _, (_, connection) = self._kept.popitem()
                connection.close()

    def _take(self, path: Path, file_id: FileId | None) -> sqlite3.Connection | None:
        with self._lock:
            kept_id, connection = self._kept.pop(path, (None, None))
        if connection is not None and kept_id != file_id:
            connection.close()
            return None
        return connection

    def _keep(self, path: Path, file_id: FileId | None, connection: sqlite3.Connection) -> None:
        with self._lock:
            _, surplus = self._kept.pop(path, (None, None))
            self._kept[path] = file_id, connection
            if len(self._kept) > MAX_KEPT:
                _, (_, surplus) = self._kept.popitem(last=False)
        if surplus is not None:
            surplus.close()
