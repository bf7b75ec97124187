"""The rows of ``control.db`` that other nodes get, as JSON: read, checked and written.

The tables in ``store.control.shared`` define which rows these are, and the check of a column follows
from its type."""

import logging
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from extensions.cluster import checks
from extensions.cluster.checks import Check, RecordError, build
from runtime import clock
from store.control import retention
from store.control.records import Table
from store.control.shared import TABLES

logger = logging.getLogger(__name__)

type Rows = dict[str, bytes]


def _blob(value: object) -> object:
    """Return bytes, given in hexadecimal digits. Raises RecordError."""
    return build(lambda hex: {"hex": hex}, value, {"hex": _digits})


def _digits(value: object) -> str:
    try:
        if len(bytes.fromhex(found := checks.text(1000)(value))) > 0:
            return found
    except ValueError:
        pass
    raise RecordError("not bytes")


# Where a column differs from a field: SQLite has numbers for truth, and those of days and bytes are above 0,
# which would remove every call.
_OF_COLUMNS: Mapping[object, Check] = {
    bytes: _blob,
    bool: checks.integer(0, 1),
    int: checks.integer(1),
}


class _SharedTable:
    """A table whose rows are shared, with the check of each column."""

    def __init__(self, table: Table[Any]) -> None:
        if table.shared is None:
            raise ValueError(f"{table.name} is not shared")
        self.name = table.name
        self.key = table.shared.key
        self.checks = {
            name: checks.find_check(of, _OF_COLUMNS) for name, of in table.list_shared().items()
        }
        names, marks = ", ".join(self.checks), ", ".join(f":{name}" for name in self.checks)
        found = " and ".join(f"{column} = ?" for column in self.key)
        self.select = f"select {names} from {self.name} where {table.shared.where}"  # noqa: S608
        self.delete = f"delete from {self.name} where {found}"  # noqa: S608
        self.insert = f"insert or replace into {self.name} ({names}) values ({marks})"  # noqa: S608

    def make_key(self, row: Mapping[str, Any]) -> str:
        return ":".join((self.name, *(row[column] for column in self.key)))

    def read(self, db: sqlite3.Connection) -> Sequence[Mapping[str, Any]]:
        return [dict(zip(self.checks, row, strict=True)) for row in db.execute(self.select)]


_TABLES = {table.name: _SharedTable(table) for table in TABLES}


def read_rows(db: sqlite3.Connection) -> Rows:
    """Return the rows to publish, by table and key, as seen by one transaction."""
    return {
        table.make_key(row): orjson.dumps({name: _encode(each) for name, each in row.items()})
        for table in _TABLES.values()
        for row in table.read(db)
    }


def check_row(key: str, content: bytes) -> bytes | None:
    """Return a row in the form that ``read_rows`` returns, None if a newer program made its table.

    Raises RecordError."""
    table = _TABLES.get(key.partition(":")[0])
    if table is None:
        return None
    row: dict[str, object] = build(dict, checks.parse_json(content), table.checks)
    if table.make_key(row) != key:
        raise RecordError("the row of another key")
    return orjson.dumps(row)


def write_rows(db: sqlite3.Connection, before: Rows, after: Rows) -> None:
    """Write the difference between ``before`` and ``after`` into ``control.db``, in the open transaction.

    The connection must not check references, since the users that rows refer to are not shared."""
    for key in before.keys() - after.keys():
        name, *found = key.split(":")
        db.execute(_TABLES[name].delete, found)
    for key, row in sorted(after.items()):
        if before.get(key) == row:
            continue
        values = {name: _decode(each) for name, each in orjson.loads(row).items()}
        try:
            db.execute(_TABLES[key.partition(":")[0]].insert, values)
        except sqlite3.IntegrityError as error:  # the others are written
            logger.error("%s of the directory is not used: %s", key, error)  # noqa: TRY400
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    ruled = {parts[1] for key in changed if (parts := key.split(":"))[0] == retention.RULES.name}
    for organization_id in sorted(ruled):
        retention.schedule(db, organization_id, clock.now())


def _encode(value: object) -> object:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _decode(value: Any) -> object:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
