"""Storing the counts of requests that the rate limit refused."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from recorder.open_databases import OpenDatabases
from recorder.setting_aside import set_aside
from store.spool import reader
from store.spool.format import Rejection, SpoolError
from store.spool.reader import Waiting
from store.traces.paths import trace_path


class RejectionStore:
    """Stores the counts of refused requests, from the spool files of all proxies, in trace databases."""

    def __init__(self, data_dir: Path, spool_root: Path, databases: OpenDatabases) -> None:
        self._data_dir = data_dir
        self._root = spool_root
        self._databases = databases

    def store(self, files: Sequence[Waiting]) -> int:
        """Store the counts in ``files``, and return the number of files if all were stored or set aside.

        Otherwise raises the first sqlite3.Error or OSError, after everything else has been stored."""
        failed: Exception | None = None
        for waiting in files:
            try:
                rejections = reader.read_rejections(waiting.file)
                for rejection in rejections:
                    trace_path(self._data_dir, rejection.organization_id)
            except (SpoolError, ValueError, OSError) as error:
                set_aside(self._root, waiting, error)
                continue
            by_organization: defaultdict[str, list[Rejection]] = defaultdict(list)
            for rejection in rejections:
                by_organization[rejection.organization_id].append(rejection)
            failures = []
            for organization_id, theirs in by_organization.items():
                try:
                    self._databases.open(organization_id).insert_rejections(
                        waiting.entry_id, theirs
                    )
                except (sqlite3.Error, OSError) as error:
                    failures.append(error)
            if failures:
                failed = failed or failures[0]
            else:
                reader.remove([waiting])
        if failed is not None:
            raise failed
        return len(files)
