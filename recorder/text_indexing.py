"""Indexing what was said in recorded calls, so that it can be searched.

The recorder does this after it has stored the calls, between its rounds and a little at a time: no call is
recorded later for it, and none fails by it. While calls wait it takes one step each second. A database that
cannot be written waits alone.
"""

import logging
import sqlite3
from collections.abc import Callable

from recorder.open_databases import OpenDatabases
from store.traces.search.indexer import Indexer

logger = logging.getLogger(__name__)

STEP_S = 0.02
# Texts of several calls take less work together. Whoever looks for a text has not just sent it.
PAUSE_S = 1.5
RETRY_S = 60.0
MAX_INDEXERS = 16


class TextIndexing:
    """Indexes the calls of all organisations, one organisation after the other."""

    def __init__(self, databases: OpenDatabases, clock_s: Callable[[], float]) -> None:
        """Index in these databases. ``clock_s`` is a monotonic clock."""
        self._databases = databases
        self._clock_s = clock_s
        self._due_s: dict[str, float] = {}  # by organisation, those that have calls to be indexed
        self._indexers: dict[str, Indexer] = {}

    def begin(self, organization_id: str) -> None:
        """Take up the work on an organisation. If there is none, that is noticed by the first step."""
        self._due_s.setdefault(organization_id, self._clock_s() + PAUSE_S)

    def run_step(self) -> bool:
        """Index a few calls of one organisation. Return whether there is more to do.

        Never raises: what cannot be done now is tried again later."""
        now_s = self._clock_s()
        ready = (each for each, due_s in self._due_s.items() if now_s >= due_s)
        organization_id = next(ready, None)
        if organization_id is None:
            return bool(self._due_s)
        del self._due_s[organization_id]
        try:
            has_more = self._open(organization_id).run(STEP_S)
        except (sqlite3.Error, OSError, ValueError) as error:
            # Recording goes on; the database may be locked or the disk full for now.
            logger.warning("Texts of %s cannot be indexed now: %s", organization_id, error)
            self._retry_later(organization_id)
        except Exception:
            # A text that cannot be read must not keep calls from being recorded.
            logger.exception("Texts of %s cannot be indexed", organization_id)
            self._retry_later(organization_id)
        else:
            if has_more:  # after the others that wait
                self._due_s[organization_id] = now_s
        return bool(self._due_s)

    def _retry_later(self, organization_id: str) -> None:
        self._indexers.pop(organization_id, None)
        self._databases.close(organization_id)
        self._due_s[organization_id] = self._clock_s() + RETRY_S

    def _open(self, organization_id: str) -> Indexer:
        """Return the indexer of an organisation, with what it remembers if its database stayed open."""
        connection = self._databases.open(organization_id).connection
        indexer = self._indexers.pop(organization_id, None)
        if indexer is None or indexer.connection is not connection:
            indexer = Indexer(connection, self._clock_s)
        self._indexers[organization_id] = indexer  # the last is the most recently used
        while len(self._indexers) > MAX_INDEXERS:
            del self._indexers[next(iter(self._indexers))]
        return indexer
