"""Indexing of the texts of recorded calls for the search."""

import sqlite3
from collections.abc import Callable

from recorder.background import BackgroundWork
from recorder.open_databases import OpenDatabases
from store.traces.search.indexer import Indexer

STEP_S = 0.02
# Texts of several calls take less work together. Whoever looks for a text has not just sent it.
PAUSE_S = 1.5
MAX_INDEXERS = 16


class TextIndexing(BackgroundWork):
    """The indexing of the calls of all organisations, one organisation after the other."""

    def __init__(self, databases: OpenDatabases, clock_s: Callable[[], float]) -> None:
        """Index in these databases. ``clock_s`` is a monotonic clock in seconds."""
        failure = "Texts of %s cannot be indexed now: %s"
        super().__init__(databases, clock_s, self._index_some, failure, pause_s=PAUSE_S)
        self._indexers: dict[str, Indexer] = {}

    def _index_some(self, organization_id: str, connection: sqlite3.Connection) -> bool:
        return self._open(organization_id, connection).run(STEP_S)

    def _open(self, organization_id: str, connection: sqlite3.Connection) -> Indexer:
        """Return the indexer of an organisation, the one used before if its database stayed open."""
        indexer = self._indexers.pop(organization_id, None)
        if indexer is None or indexer.connection is not connection:
            indexer = Indexer(connection, self._clock_s)
        self._indexers[organization_id] = indexer  # the last is the most recently used
        while len(self._indexers) > MAX_INDEXERS:
            del self._indexers[next(iter(self._indexers))]
        return indexer
