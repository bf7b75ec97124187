"""The directory of a cluster: what other nodes must know of the ``control.db`` of the web node.

    taximeter:directory           a hash: the rows of some tables, each as JSON
    taximeter:directory:version   a number, one more with each change

The web node publishes, and every other node writes what it reads into a ``control.db`` of its own. So a
proxy resolves slugs as on one machine, also while Redis is away and after a restart without it, and a
recorder applies the rules of retention to its copy. They compare versions five times a second.

Rows hold no secret of a person: keys are SHA-256 digests, as in the file, and the only addresses are those of
people who are invited and of who invited them. Among the secrets of the service
only that of fingerprints is told, so that a credential has the same one on every node, and the public key by
which statements of the web node are checked.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from cluster import server
from runtime import clock
from store import database
from store.control import retention
from store.control.database import FINGERPRINT_KEY, PAGE_CHECKING_KEY, ControlDatabase

ROWS, VERSION = "taximeter:directory", "taximeter:directory:version"


@dataclass(frozen=True, slots=True)
class _Table:
    """A table, or a part of it. The first columns, so many as ``keys``, tell its rows apart."""

    name: str
    columns: tuple[str, ...]
    where: str = "true"
    keys: int = 1

    @property
    def select(self) -> str:
        names = ", ".join(self.columns)
        return f"select {names} from {self.name} where {self.where} order by 1"  # noqa: S608

    @property
    def delete(self) -> str:
        found = " and ".join(f"{column} = ?" for column in self.columns[: self.keys])
        return f"delete from {self.name} where {found}"  # noqa: S608

    def make_key(self, row: tuple[Any, ...]) -> bytes:
        return ":".join((self.name, *row[: self.keys])).encode()


_RULES = "retention_rules"
_TABLES = (
    _Table("organizations", ("id", "name", "created_at", "time_zone")),
    _Table(
        "proxy_endpoints",
        (
            "id",
            "organization_id",
            "name",
            "slug",
            "streaming",
            "metadata_only",
            "created_at",
            "deleted_at",
        ),
    ),
    _Table(
        "api_keys",
        ("id", "user_id", "organization_id", "name", "key_sha256", "key_prefix", "created_at"),
    ),
    _Table(
        "budgets",
        (
            "id",
            "organization_id",
            "proxy_endpoint_id",
            "period",
            "limit_usd",
            "action",
            "created_at",
        ),
    ),
    _Table(  # shown on the home page of whoever is invited
        "invitations",
        ("id", "organization_id", "email", "invited_by", "created_at", "expires_at"),
    ),
    _Table(
        _RULES,
        ("organization_id", "proxy_endpoint_id", "text_days", "entry_days", "max_bytes"),
        keys=2,
    ),
    _Table("secrets", ("name", "value"), f"name in ('{FINGERPRINT_KEY}', '{PAGE_CHECKING_KEY}')"),
)

type Rows = dict[bytes, bytes]


def read_rows(db: sqlite3.Connection) -> Rows:
    """Return the rows to publish, by table and first column, as a transaction sees them."""
    return {
        table.make_key(row): orjson.dumps([_encode(each) for each in row])
        for table in _TABLES
        for row in db.execute(table.select)
    }


def write_rows(
    db: sqlite3.Connection, before: Mapping[bytes, bytes], after: Mapping[bytes, bytes]
) -> None:
    """Write the difference into ``control.db``, in the transaction that is open.

    Its connection must not check references: the people to whom keys belong are not told."""
    tables = {table.name: table for table in _TABLES}
    for key in before.keys() - after.keys():
        name, *found = key.decode().split(":")
        db.execute(tables[name].delete, found)
    for key, row in sorted(after.items()):
        name = key.decode().partition(":")[0]
        if name not in tables or before.get(key) == row:
            continue  # of a newer program, or not changed
        table = tables[name]
        marks = ", ".join("?" * len(table.columns))
        db.execute(
            f"insert or replace into {table.name} ({', '.join(table.columns)}) values ({marks})",  # noqa: S608
            [_decode(each) for each in orjson.loads(row)],
        )
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    ruled = {parts[1] for key in changed if (parts := key.decode().split(":"))[0] == _RULES}
    for organization_id in sorted(ruled):
        retention.schedule(db, organization_id, clock.now())


class Publisher:
    """Publishes the directory of the web node."""

    def __init__(self, control: sqlite3.Connection, client: server.Client) -> None:
        """Read from a connection to ``control.db``, which is only for this."""
        self._control, self._client = control, client
        self._watch = server.ServerWatch(client)
        self._seen: int | None = None
        self._identity: server.Identity | None = None
        self._published: Rows = {}

    def run_round(self) -> bool:
        """Publish what has changed; return whether something had. Raises redis.RedisError."""
        identity = self._watch.identify()
        if identity != self._identity:  # one that may know less
            self._published = self._client.hgetall(ROWS)
            self._seen, self._identity = None, identity
        seen = self._control.execute("pragma data_version").fetchone()[0]
        if seen == self._seen:
            return False
        with database.snapshot(self._control):
            rows = read_rows(self._control)
        changed = {key: row for key, row in rows.items() if self._published.get(key) != row}
        gone = self._published.keys() - rows.keys()
        if changed or gone:
            pipeline = self._client.pipeline(transaction=True)
            if changed:
                pipeline.hset(ROWS, mapping=changed)
            if gone:
                pipeline.hdel(ROWS, *gone)
            pipeline.incr(VERSION)
            pipeline.execute()
        self._published, self._seen = rows, seen
        return bool(changed or gone)


class Follower:
    """Writes the directory into the ``control.db`` of another node."""

    def __init__(self, control: ControlDatabase, client: server.Client) -> None:
        self._control, self._client = control, client
        self._watch = server.ServerWatch(client)
        self._version: tuple[server.Identity, bytes | None] | None = None

    def run_round(self) -> bool:
        """Write what has changed; return whether something had. Raises redis.RedisError, sqlite3.Error."""
        version = (self._watch.identify(), self._client.get(VERSION))
        if version == self._version:
            return False
        rows: Rows = self._client.hgetall(ROWS)
        if not rows:
            return False  # a server that has lost it: the web node publishes it again
        with self._control.transaction() as db:
            known = read_rows(db)
            write_rows(db, known, rows)
        self._version = version
        return known != rows


def _encode(value: object) -> object:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _decode(value: Any) -> object:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
