"""Storing of the calls that ``taximeter import`` has handed over, a file at a time."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from recorder.background import BackgroundWork
from recorder.open_databases import OpenDatabases
from store import call_imports
from store.traces.calls.line_fields import LineError

logger = logging.getLogger(__name__)


class Imports(BackgroundWork):
    """The storing of imported calls of all organisations, which take turns.

    ``on_stored`` is called with the organisation of each file that was stored."""

    def __init__(
        self,
        data_dir: Path,
        databases: OpenDatabases,
        clock_s: Callable[[], float],
        on_stored: Callable[[str], None],
    ) -> None:
        """Store into these databases. ``clock_s`` is a monotonic clock in seconds."""
        failure = "Calls of %s cannot be imported now: %s"
        super().__init__(databases, clock_s, self._store_next, failure, makes_databases=True)
        self._data_dir = data_dir
        self._on_stored = on_stored

    def run_step(self) -> bool:
        """Store one file, if there is one. Return whether any is left."""
        for organization_id in call_imports.list_organizations(self._data_dir):
            super().begin(organization_id)
        return super().run_step()

    def begin(self, organization_id: str) -> None:
        """Do nothing: ``run_step`` finds waiting files in the data directory."""

    def _store_next(self, organization_id: str, _connection: sqlite3.Connection) -> bool:
        path = call_imports.find_next(self._data_dir, organization_id)
        if path is None:
            return False
        try:
            call_imports.store_file(self._databases.open(organization_id), path)
        except LineError as error:
            logger.warning("%s is not what an import hands over, and is left: %s", path, error)
            return True
        self._on_stored(organization_id)
        return True
