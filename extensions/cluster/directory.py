"""The directory of a cluster: what other nodes must know of the ``control.db`` of the web node.

``keys.DIRECTORY`` has the rows of some tables, each as JSON, and ``keys.DIRECTORY_VERSION`` a number, one
more with each change. The web node publishes, and every other node writes what it reads into a
``control.db`` of its own. So a proxy resolves slugs as on one machine, also while Redis is away and after a
restart without it, and a recorder applies the rules of retention to its copy. They compare versions five
times a second. A row that is none leaves the one that was there before.

Rows hold no secret of a person: keys are SHA-256 digests, as in the file, and the only addresses are those of
people who are invited and of who invited them. Among the secrets of the service only that of fingerprints is
told, so that a credential has the same one on every node. By which key statements of the web node are
checked is told elsewhere (``statement_key.py``): a proxy node need not know it.
"""

import logging
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from extensions.cluster import checks, reading, server
from extensions.cluster.checks import Check, RecordError, build
from extensions.cluster.keys import DIRECTORY, DIRECTORY_VERSION
from runtime import clock
from store import database
from store.control import retention
from store.control.database import FINGERPRINT_KEY, ControlDatabase

logger = logging.getLogger(__name__)


def _blob(value: object) -> object:
    """Check bytes, which are written in hexadecimal digits."""
    return build(lambda hex: {"hex": hex}, value, {"hex": _digits})


def _digits(value: object) -> str:
    try:
        if len(bytes.fromhex(found := checks.text(1000)(value))) > 0:
            return found
    except ValueError:
        pass
    raise RecordError("not bytes")


@dataclass(frozen=True, slots=True)
class _Table:
    """A table, or a part of it, with the check of each column.

    The first columns, so many as ``keys``, tell its rows apart."""

    name: str
    checks: Mapping[str, Check]
    where: str = "true"
    keys: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.checks)

    @property
    def select(self) -> str:
        names = ", ".join(self.columns)
        return f"select {names} from {self.name} where {self.where} order by 1"  # noqa: S608

    @property
    def delete(self) -> str:
        found = " and ".join(f"{column} = ?" for column in self.columns[: self.keys])
        return f"delete from {self.name} where {found}"  # noqa: S608

    def make_key(self, row: Sequence[Any]) -> str:
        return ":".join((self.name, *row[: self.keys]))


_RULES = "retention_rules"
_ANY_LINE = checks.any_text(1000)
_COUNT = checks.optional(checks.integer(1))
_OF_ENDPOINT = checks.optional(checks.name)
_TABLES = {
    table.name: table
    for table in (
        _Table(
            "organizations",
            {
                "id": checks.name,
                "name": _ANY_LINE,
                "created_at": checks.instant,
                "time_zone": checks.optional(checks.text(100)),
            },
        ),
        _Table(
            "proxy_endpoints",
            {
                "id": checks.name,
                "organization_id": checks.name,
                "name": _ANY_LINE,
                "slug": checks.name,
                "streaming": checks.optional(checks.choice("live", "buffered")),
                "metadata_only": checks.integer(0, 1),
                "created_at": checks.instant,
                "deleted_at": checks.optional(checks.instant),
            },
        ),
        _Table(
            "api_keys",
            {
                **dict.fromkeys(("id", "user_id", "organization_id"), checks.name),
                "name": _ANY_LINE,
                "key_sha256": _blob,
                "key_prefix": checks.text(100),
                "created_at": checks.instant,
            },
        ),
        _Table(
            "budgets",
            {
                **dict.fromkeys(("id", "organization_id"), checks.name),
                "proxy_endpoint_id": _OF_ENDPOINT,
                "period": checks.choice("day", "month"),
                "limit_usd": checks.number,
                "action": checks.choice("warn", "refuse"),
                "created_at": checks.instant,
            },
        ),
        _Table(  # shown on the home page of whoever is invited
            "invitations",
            {
                **dict.fromkeys(("id", "organization_id"), checks.name),
                "email": _ANY_LINE,
                "invited_by": checks.optional(_ANY_LINE),
                **dict.fromkeys(("created_at", "expires_at"), checks.instant),
            },
        ),
        _Table(
            _RULES,
            {
                "organization_id": checks.name,
                "proxy_endpoint_id": lambda value: checks.name(value) if value else "",
                **{limit.name: _COUNT for limit in retention.LIMITS},
            },
            keys=2,
        ),
        _Table(
            "secrets",
            {"name": checks.choice(FINGERPRINT_KEY), "value": _blob},
            f"name = '{FINGERPRINT_KEY}'",
        ),
    )
}

type Rows = dict[str, bytes]


def read_rows(db: sqlite3.Connection) -> Rows:
    """Return the rows to publish, by table and first column, as a transaction sees them."""
    return {
        table.make_key(row): orjson.dumps([_encode(each) for each in row])
        for table in _TABLES.values()
        for row in db.execute(table.select)
    }


def check_row(key: str, content: bytes) -> bytes | None:
    """Return the row of a key as ``read_rows`` returns it, None for a table of a newer program.

    Raises RecordError."""
    table = _TABLES.get(key.partition(":")[0])
    if table is None:
        return None
    found = checks.parse_json(content)
    if not isinstance(found, list) or len(found) < len(table.columns):
        raise RecordError(f"not a row of {table.name}")
    values: dict[str, object] = build(
        dict, dict(zip(table.columns, found, strict=False)), table.checks
    )
    row = list(values.values())
    if table.make_key(row) != key:
        raise RecordError("the row of another key")
    return orjson.dumps(row)


def write_rows(db: sqlite3.Connection, before: Rows, after: Rows) -> None:
    """Write the difference into ``control.db``, in the transaction that is open.

    Its connection must not check references: the people to whom keys belong are not told."""
    for key in before.keys() - after.keys():
        name, *found = key.split(":")
        db.execute(_TABLES[name].delete, found)
    for key, row in sorted(after.items()):
        if before.get(key) == row:
            continue
        table = _TABLES[key.partition(":")[0]]
        marks = ", ".join("?" * len(table.columns))
        try:
            db.execute(
                f"insert or replace into {table.name} ({', '.join(table.columns)}) values ({marks})",  # noqa: S608
                [_decode(each) for each in orjson.loads(row)],
            )
        except sqlite3.IntegrityError as error:  # the others are written
            logger.error("%s of the directory is not used: %s", key, error)  # noqa: TRY400
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    ruled = {parts[1] for key in changed if (parts := key.split(":"))[0] == _RULES}
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
        self._published: Rows | None = None

    def run_round(self) -> bool:
        """Publish what has changed; return whether something had. Raises redis.RedisError."""
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
    """Writes the directory into the ``control.db`` of another node."""

    def __init__(self, control: ControlDatabase, client: server.Client) -> None:
        self._control, self._client = control, client
        self._watch = server.ServerWatch(client)
        self._version: tuple[server.Identity, str] | None = None

    def run_round(self) -> bool:
        """Write what has changed; return whether something had. Raises redis.RedisError, sqlite3.Error."""
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


def _encode(value: object) -> object:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _decode(value: Any) -> object:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
