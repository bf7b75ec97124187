"""The directory of a cluster: the part of the web node's ``control.db`` that other nodes need.

``keys.DIRECTORY`` has the rows of the shared tables, each as JSON, and ``keys.DIRECTORY_VERSION`` a
number that is incremented with each change. The web node publishes the rows, and every other node
writes them into its own ``control.db``. So a proxy resolves slugs as on a single machine, also while
Redis is away and after a restart without it, and a recorder applies the retention rules to its copy.
Nodes compare versions five times a second. An invalid row is ignored, and the previous one stays.

The public key that checks statements of the web node is not in the directory (see
``statement_key.py``), since proxy nodes do not need it."""

import sqlite3
from collections.abc import Collection, Mapping

from extensions.cluster import checks, reading, server
from extensions.cluster.keys import DIRECTORY, DIRECTORY_VERSION
from extensions.cluster.shared_rows import Rows, check_row, read_rows, write_rows
from store import database
from store.control.database import ControlDatabase


class Publisher:
    """Publishes the directory of the web node."""

    def __init__(self, control: sqlite3.Connection, client: server.Client) -> None:
        """Read from ``control``, a connection to ``control.db`` that nothing else uses."""
        self._control, self._client = control, client
        self._watch = server.ServerWatch(client)
        self._seen: int | None = None
        self._identity: server.Identity | None = None
        self._published: Rows | None = None

    def run_round(self) -> bool:
        """Publish changed rows; return whether there were any. Raises redis.RedisError."""
        identity = self._watch.identify()
        if identity != self._identity:  # one that may know less
            self._published, self._seen, self._identity = None, None, identity
        seen = self._control.execute("pragma data_version").fetchone()[0]
        if seen == self._seen:
            return False
        with database.snapshot(self._control):
            rows = read_rows(self._control)
        changed, gone = self._compare(rows)
        if changed or gone:
            pipeline = self._client.pipeline(transaction=True)
            if changed:
                pipeline.hset(DIRECTORY, mapping=changed)
            if gone:
                pipeline.hdel(DIRECTORY, *gone)
            pipeline.incr(DIRECTORY_VERSION)
            pipeline.execute()
        self._published, self._seen = rows, seen
        return bool(changed or gone)

    def _compare(self, rows: Rows) -> tuple[Mapping[str, bytes], Collection[str | bytes]]:
        published = self._published
        if published is None:
            return reading.compare(self._client, DIRECTORY, rows)
        changed = {key: row for key, row in rows.items() if published.get(key) != row}
        return changed, published.keys() - rows.keys()


class Follower:
    """Writes the directory into the ``control.db`` of a node without pages."""

    def __init__(self, control: ControlDatabase, client: server.Client) -> None:
        self._control, self._client = control, client
        self._watch = server.ServerWatch(client)
        self._version: tuple[server.Identity, str] | None = None

    def run_round(self) -> bool:
        """Write changed rows; return whether there were any. Raises redis.RedisError, sqlite3.Error."""
        found = reading.read_value(self._client, DIRECTORY_VERSION, _parse_version)
        version = (self._watch.identify(), found or "")
        if version == self._version:
            return False
        refused: set[str] = set()
        rows = reading.read_hash(self._client, DIRECTORY, check_row, refused)
        if not rows:
            return False  # a server that has lost it: the web node publishes it again
        with self._control.transaction() as db:
            known = read_rows(db)
            rows |= {key: row for key, row in known.items() if key in refused}
            write_rows(db, known, rows)
        self._version = version
        return known != rows


def _parse_version(content: bytes) -> str:
    return checks.name(content[:100].decode("ascii", "replace"))
