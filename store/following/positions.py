"""The last call of each organisation that each receiver has acknowledged, in a database of its own.

Only the process that forwards calls writes to it, so the recorder never waits for it. If a trace
database is replaced, the positions stay; each has the entry id of its call too, by which a
replacement is noticed."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from store import database
from store.migrations import Database, Migrations

BUSY_TIMEOUT_MS = 5000
READ_TIMEOUT_S = 1.0


def make_migrations(name: str) -> Migrations:
    """Return the migrations of a database of positions, recorded under ``name``."""
    migrations = Migrations(name)
    migrations()(m001_keep_positions)
    return migrations


def m001_keep_positions(db: Database) -> None:
    """Add receivers (``collectors`` in SQL) and positions."""
    for statement in (
        "create table collectors (collector text primary key) without rowid",
        """
        create table positions (
            collector text not null,
            organization_id text not null,
            last_id integer not null,       -- of the last call that is done with
            last_entry_id text,             -- null: none is yet
            exported integer not null,
            dropped integer not null,
            primary key (collector, organization_id)
        ) without rowid
        """,
    ):
        db.execute(statement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The last call of an organisation that a receiver has, and the numbers of calls sent and dropped."""

    last_id: int = 0
    last_entry_id: str | None = None
    exported: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of calls that a receiver has acknowledged, and of those dropped."""

    receiver: str
    exported: int
    dropped: int


def read_totals(path: Path) -> list[Totals]:
    """Return the totals of each receiver, without creating the file. Raises sqlite3.Error."""
    if not path.exists():
        return []
    with closing(database.open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db:
        if not database.list_columns(db, "positions"):
            return []
        rows = db.execute(
            "select collector, sum(exported), sum(dropped) from positions group by collector"
        )
        return [Totals(*row) for row in rows]


class Positions:
    """The positions of all receivers of one database. Every method may raise sqlite3.Error."""

    def __init__(self, path: Path, migrations: Migrations) -> None:
        """Open the file, creating it if needed. Raises sqlite3.Error and OSError."""
        self._db = database.open_database(path, migrations, busy_timeout_ms=BUSY_TIMEOUT_MS)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin(self, receiver: str, newest: Mapping[str, Position]) -> None:
        """Set the position of a new receiver to the newest calls: it gets only calls recorded from now on.

        Organisations not in ``newest`` begin with their first call. A known receiver is unchanged."""
        with database.immediate(self._db):
            cursor = self._db.execute("insert or ignore into collectors values (?)", (receiver,))
            if cursor.rowcount:
                for organization_id, position in newest.items():
                    self._write(receiver, organization_id, position)

    def find(self, receiver: str, organization_id: str) -> Position:
        """Return the position of a receiver in an organisation's calls, a new one if none is stored."""
        found = database.read_records(
            self._db,
            Position,
            "select last_id, last_entry_id, exported, dropped from positions"
            " where collector = ? and organization_id = ?",
            (receiver, organization_id),
        )
        return found[0] if found else Position()

    def write(self, receiver: str, organization_id: str, position: Position) -> None:
        """Replace a position. It is on the disk when this returns."""
        with database.immediate(self._db):
            self._write(receiver, organization_id, position)

    def _write(self, receiver: str, organization_id: str, position: Position) -> None:
        self._db.execute(
            "insert or replace into positions values (?, ?, ?, ?, ?, ?)",
            (
                receiver,
                organization_id,
                position.last_id,
                position.last_entry_id,
                position.exported,
                position.dropped,
            ),
        )
