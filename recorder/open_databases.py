"""Open trace databases: those written most recently stay open."""

from pathlib import Path

from store.traces.bodies.bodies import RequestPreparer
from store.traces.database import TraceDatabase
from store.traces.paths import FileId, identify_file, trace_path

MAX_OPEN_DATABASES = 64


class OpenDatabases:
    """A cache of open trace databases by organisation id, which closes those used least recently."""

    def __init__(self, data_dir: Path, preparer: RequestPreparer) -> None:
        """Open databases of ``data_dir``; all share ``preparer``."""
        self._data_dir = data_dir
        self._preparer = preparer
        self._databases: dict[str, TraceDatabase] = {}
        self._files: dict[str, FileId | None] = {}

    def open(self, organization_id: str) -> TraceDatabase:
        """Return the open database of an organisation, created and migrated if needed.

        Raises sqlite3.Error and OSError, and ValueError for an invalid id."""
        path = trace_path(self._data_dir, organization_id)
        database = self._databases.pop(organization_id, None)
        if database is not None and identify_file(path) != self._files[organization_id]:
            database.close()  # it was removed or replaced under us: do not write into nowhere
            database = None
        if database is None:
            database = TraceDatabase(path, preparer=self._preparer)
            self._files[organization_id] = identify_file(path)
        self._databases[organization_id] = database  # the last is the most recently used
        while len(self._databases) > MAX_OPEN_DATABASES:
            self.close(next(iter(self._databases)))
        return database

    def is_there(self, organization_id: str) -> bool:
        """Return whether an organisation has a database. Raises ValueError for an invalid id."""
        return trace_path(self._data_dir, organization_id).exists()

    def close(self, organization_id: str) -> None:
        """Close a database if it is open."""
        database = self._databases.pop(organization_id, None)
        self._files.pop(organization_id, None)
        if database is not None:
            database.close()

    def close_all(self) -> None:
        """Close all databases."""
        while self._databases:
            self.close(next(iter(self._databases)))
