"""Reading a trace database: lists, new entries, exports.

Each page of a list is read in a transaction of its own, so that none stays open while a client reads
slowly: SQLite cannot shorten its write-ahead log before a transaction ends.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from metering import token_counts
from metering.attribution import split_tag
from metering.entry import UsageLogEntry
from metering.token_counts import TokenCounts
from store import database
from store.traces.calls import costs
from store.traces.database import SCALARS

BUSY_TIMEOUT_S = 5.0  # people can wait
_PLAIN = tuple(name for name in SCALARS if name not in token_counts.NAMES)
BODIES = ("request_body", "response_body")
_PAGE = 200

type Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """The entries to read. A field without a value excludes nothing.

    ``since`` and ``until`` (exclusive) are as ``clock.format_ms`` writes them. ``model`` is a pattern
    with ``*`` and ``?``. ``tag`` is ``key:value``, or a tag without a key."""

    since: str | None = None
    until: str | None = None
    slugs: Sequence[str] = ()
    model: str | None = None
    user: str | None = None
    project: str | None = None
    tag: str | None = None

    @property
    def may_choose_few(self) -> bool:
        """Return whether a page of chosen entries may require reading many more calls than it has."""
        return bool(self.slugs) or any((self.model, self.user, self.project, self.tag))

    def conditions(self) -> tuple[list[str], list[object]]:
        """Return SQL conditions, all of which must hold, and the values for their placeholders."""
        conditions: list[str] = []
        parameters: list[object] = []
        for condition, value in (
            ("created_at >= ?", self.since),
            ("created_at < ?", self.until),
            ("model glob ?", None if self.model is None else _as_glob(self.model)),
            ("attributed_user = ?", self.user),
            ("project = ?", self.project),
        ):
            if value is not None:
                conditions.append(condition)
                parameters.append(value)
        if self.slugs:
            conditions.append(f"slug in ({', '.join('?' * len(self.slugs))})")
            parameters += self.slugs
        if self.tag is not None:
            conditions.append("id in (select usage_id from tags where name = ? and value = ?)")
            parameters += split_tag(self.tag.lower())
        return conditions, parameters


class TraceReader:
    """A read-only connection to the traces of one organisation.

    Rows are those of ``usage_log``, as dictionaries without bodies. Every method may raise
    sqlite3.Error."""

    def __init__(self, path: Path) -> None:
        """Open a trace database. Raises sqlite3.Error if it cannot be read."""
        self._db = database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)
        self._db.row_factory = database.make_dict
        try:
            self.types = read_types(self._db)
        except BaseException:
            self._db.close()
            raise
        self.columns = tuple(name for name in self.types if name not in BODIES)
        self._select = f"select {', '.join(self.columns)} from usage_log"  # noqa: S608 - its own names

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    @property
    def is_ready(self) -> bool:
        """Return whether the recorder has finished creating the database."""
        return bool(self.columns)

    def find_last_id(self) -> int:
        """Return the highest row id, or 0 if there is no entry."""
        row: Row = self._db.execute("select coalesce(max(id), 0) as id from usage").fetchone()
        return int(row["id"])

    def read_newest(self, count: int, up_to_id: int, entry_filter: EntryFilter) -> list[Row]:
        """Return the last ``count`` chosen entries with row ids up to ``up_to_id``, oldest first."""
        return self._read(entry_filter, ["id <= ?"], [up_to_id], "id desc", count)[::-1]

    def iter_inserted(
        self, after_id: int, up_to_id: int, entry_filter: EntryFilter
    ) -> Iterator[Row]:
        """Yield the chosen entries with row ids above ``after_id``, up to ``up_to_id``, in that order."""
        while rows := self._read(
            entry_filter, ["id > ?", "id <= ?"], [after_id, up_to_id], "id", _PAGE
        ):
            yield from rows
            after_id = rows[-1]["id"]

    def read_page(self, entry_filter: EntryFilter, place: tuple[str, str], limit: int) -> list[Row]:
        """Return up to ``limit`` chosen entries in order of arrival, after a place (instant, entry id)."""
        # By the index on created_at, so that asking for a day does not read a year. The place alone is
        # its lower bound: offered another one, SQLite might begin every page there.
        return self._read(
            replace(entry_filter, since=None),
            ["(created_at, entry_id) > (?, ?)"],
            list(place),
            "created_at, entry_id",
            limit,
        )

    def find_arrival(self, after: str, count: int) -> str | None:
        """Return the arrival of the entry behind the next ``count`` ones after an instant, or None."""
        found: Row | None = self._db.execute(
            "select created_at from usage where created_at > ? order by created_at limit 1 offset ?",
            (after, count),
        ).fetchone()
        return None if found is None else str(found["created_at"])

    def find(self, usage_id: int) -> Row | None:
        """Return the entry with this row id, or None."""
        found = self._read(EntryFilter(), ["id = ?"], [usage_id], "id", 1)
        return found[0] if found else None

    def read_bodies(self, usage_id: int) -> Row | None:
        """Return both bodies as the view ``usage_log`` gives them, or None if the entry does not exist."""
        found: Row | None = self._db.execute(
            f"select {', '.join(BODIES)} from usage_log where id = ?",  # noqa: S608 - two names
            (usage_id,),
        ).fetchone()
        return found

    def _read(
        self,
        entry_filter: EntryFilter,
        conditions: list[str],
        parameters: list[object],
        order: str,
        limit: int,
    ) -> list[Row]:
        more, values = entry_filter.conditions()
        where = " and ".join([*conditions, *more]) or "true"
        return self._db.execute(
            f"{self._select} where {where} order by {order} limit ?",
            (*parameters, *values, limit),
        ).fetchall()


def make_entry(row: Row) -> UsageLogEntry:
    """Return the entry in a row of ``usage_log``, without bodies and line items.

    Columns that a database lacks, because no newer recorder has opened it, are None."""
    values = {name: row[name] for name in _PLAIN if name in row}
    for name in ("cost_cents", "estimated_cents"):
        values[name] = costs.from_real(row.get(name))
    values["streamed"] = bool(row["streamed"])
    return UsageLogEntry(**values, tokens=TokenCounts.from_row(row))


def _as_glob(pattern: str) -> str:
    """Return a pattern with ``*`` and ``?`` as a GLOB pattern: square brackets are escaped."""
    return pattern.replace("[", "[[]")


def read_types(db: sqlite3.Connection, table: str = "usage_log") -> dict[str, str]:
    """Return the columns of a table or view with their declared types, "" for computed columns."""
    cursor = db.cursor()
    cursor.row_factory = None
    return dict(cursor.execute("select name, type from pragma_table_info(?)", (table,)))


def read_newest_arrival(path: Path) -> str | None:
    """Return ``created_at`` of the newest entry of a trace database, or None if it has no entry.

    Raises sqlite3.Error."""
    with closing(database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S)) as connection:
        row = connection.execute("select max(created_at) from usage").fetchone()
        return None if row is None else row[0]
