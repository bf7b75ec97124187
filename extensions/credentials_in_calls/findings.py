"""The credentials that were found in an organisation's calls: redacted, in a file beside its traces.

They have their own file because every member may query the traces, and these are for owners. It has
the kind, the beginning and a keyed digest of each credential, and never the credential."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from extensions.credentials_in_calls import FILE
from store import database
from store.migrations import Database, Migrations

MAX_LISTED = 200
BUSY_TIMEOUT_S = 1.0
migrations = Migrations("secrets")


@migrations()
def m001_found_secrets(db: Database) -> None:
    """Create the tables of findings and of the progress of the search."""
    for statement in (
        # Up to which call and piece of text was searched.
        "create table progress (id integer primary key check (id = 1),"
        " usage_id integer not null, piece_id integer not null)",
        """
        create table found (
            usage_id integer not null,
            digest blob not null,          -- HMAC of the credential
            kind text not null,
            place text not null,           -- who said it
            shown text not null,           -- its first characters
            created_at text not null,      -- arrival of the call
            primary key (usage_id, digest)
        ) without rowid
        """,
        "create index found_digest on found (digest, usage_id)",
    ):
        db.execute(statement)


class Progress(NamedTuple):
    """The last call, and the last piece of request text, that were searched."""

    usage_id: int
    piece_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A credential in a call."""

    usage_id: int
    digest: bytes
    kind: str
    place: str
    shown: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedSecret:
    """A credential with a summary of its findings: number of calls, places, first and last finding."""

    kind: str
    shown: str
    places: tuple[str, ...]
    calls: int
    first_at: str
    last_at: str
    last_usage_id: int


def secrets_path(trace_path: Path) -> Path:
    """Return the path of the file that belongs to a trace database."""
    return trace_path.with_name(FILE)


class FoundSecrets:
    """The findings of one organisation, opened for writing. Every method may raise sqlite3.Error."""

    def __init__(self, trace_path: Path) -> None:
        """Open the file, creating it if necessary. Raises sqlite3.Error, OSError."""
        self._db = database.open_database(secrets_path(trace_path), migrations)

    def close(self) -> None:
        self._db.close()

    def read_progress(self) -> Progress | None:
        """Return the progress of the search, None before its first step."""
        row = self._db.execute("select usage_id, piece_id from progress").fetchone()
        return None if row is None else Progress(*row)

    def is_known(self, digest: bytes, before: int) -> bool:
        """Return whether this credential was found in a call before the one with the id ``before``."""
        sql = "select 1 from found where digest = ? and usage_id < ?"
        return self._db.execute(sql, (digest, before)).fetchone() is not None

    def add(self, progress: Progress, findings: Iterable[Finding]) -> None:
        """Store findings and the progress of the search in one transaction."""
        with database.immediate(self._db):
            self._db.execute("insert or replace into progress values (1, ?, ?)", progress)
            self._db.executemany(
                "insert or ignore into found values (?, ?, ?, ?, ?, ?)",
                [(f.usage_id, f.digest, f.kind, f.place, f.shown, f.created_at) for f in findings],
            )


def remove_missing(trace_path: Path, traces: sqlite3.Connection) -> None:
    """Remove the findings of calls that are no longer in the traces. Raises sqlite3.Error, OSError."""
    if not secrets_path(trace_path).exists():
        return
    with closing(database.open_database(secrets_path(trace_path), migrations)) as db:
        ids = [row[0] for row in db.execute("select distinct usage_id from found")]
        gone = [(each,) for each in ids if not _is_there(traces, each)]
        with database.immediate(db):
            db.executemany("delete from found where usage_id = ?", gone)


def empty_log(trace_path: Path) -> bool:
    """Empty the write-ahead log; return False if that was not possible. Raises sqlite3.Error, OSError."""
    if not secrets_path(trace_path).exists():
        return True
    with closing(database.open_database(secrets_path(trace_path), migrations)) as db:
        db.execute("PRAGMA incremental_vacuum").fetchall()
        return database.empty_log(db)


def _is_there(traces: sqlite3.Connection, usage_id: int) -> bool:
    return traces.execute("select 1 from usage where id = ?", (usage_id,)).fetchone() is not None


def list_secrets(trace_path: Path, traces: sqlite3.Connection) -> Sequence[ListedSecret]:
    """Return the credentials found in existing calls, the most recently found first.

    Raises sqlite3.Error."""
    with _reading(trace_path) as db:
        if db is None:
            return []
        rows = db.execute(
            "select digest, max(usage_id), count(*), min(created_at), max(created_at)"
            " from found group by digest order by max(usage_id) desc limit ?",
            (MAX_LISTED,),
        ).fetchall()
        return [
            _list_one(db, *row) for row in rows if _is_there(traces, row[1])
        ]  # retention begins with the oldest, so the last one is there if any is


def _list_one(
    db: sqlite3.Connection, digest: bytes, usage_id: int, calls: int, first_at: str, last_at: str
) -> ListedSecret:
    kind, shown = db.execute(
        "select kind, shown from found where usage_id = ? and digest = ?", (usage_id, digest)
    ).fetchone()
    places = db.execute("select distinct place from found where digest = ? order by 1", (digest,))
    return ListedSecret(
        kind=kind,
        shown=shown,
        places=tuple(row[0] for row in places),
        calls=calls,
        first_at=first_at,
        last_at=last_at,
        last_usage_id=usage_id,
    )


def count_in_calls(trace_path: Path, usage_ids: Sequence[int]) -> dict[int, int]:
    """Return the number of credentials found in each call that has any, by row id. Raises sqlite3.Error."""
    with _reading(trace_path) as db:
        if db is None:
            return {}
        sql = (
            "select usage_id, count(*) from found"
            " where usage_id in (select value from json_each(?)) group by usage_id"
        )
        return dict(db.execute(sql, (json.dumps(list(usage_ids)),)).fetchall())


def count_since(trace_path: Path, since: str) -> tuple[int, int]:
    """Return the number of credentials found in calls since ``since``, and the id of the last such call.

    Only the newest findings are examined. Raises sqlite3.Error."""
    with _reading(trace_path) as db:
        if db is None:
            return 0, 0
        newest = "select * from found order by usage_id desc limit ?"
        sql = f"select count(distinct digest), max(usage_id) from ({newest}) where created_at >= ?"  # noqa: S608 - our own text
        count, usage_id = db.execute(sql, (MAX_LISTED, since)).fetchone()
        return count, usage_id or 0


@contextmanager
def _reading(trace_path: Path) -> Iterator[sqlite3.Connection | None]:
    """Yield a connection for reading, None if nothing has been searched yet."""
    path = secrets_path(trace_path)
    if not path.exists():
        yield None
        return
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as db:
        yield db if database.list_columns(db, "found") else None
