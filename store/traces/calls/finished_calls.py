"""Reading of calls in the order in which they were stored, for programs that forward them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metering.token_counts import NAMES, TokenCounts, list_flat_fields
from store.database import list_columns, open_readonly, snapshot
from store.traces.bodies import bodies
from store.traces.bodies.bodies import MissingPieceError, StoredBodies

READ_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCall:
    """A stored call, as the columns of ``usage`` have it. ``tags`` is a JSON list."""

    id: int
    entry_id: str
    created_at: str
    slug: str
    outcome: str
    streamed: int
    model: str | None
    request_model: str | None
    tokens: TokenCounts
    thinking_tokens: int | None
    cost_cents: float | None
    duration_ms: float | None
    ttfb_ms: float | None
    proxy_overhead_ms: float | None
    status_code: int | None
    error_type: str | None
    stop_reason: str | None
    max_tokens: int | None
    session_id: str | None
    agent_id: str | None
    client: str | None
    upstream_request_id: str | None
    billing: str | None = None
    attributed_user: str | None = None
    project: str | None = None
    tags: str | None = None


COLUMNS = tuple(list_flat_fields(FinishedCall))


class FinishedCalls:
    """The calls of one organisation. Every method may raise sqlite3.Error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator["FinishedCalls | None"]:
        """Yield the calls of a database, or None if the recorder has not created its tables yet."""
        with closing(open_readonly(path, busy_timeout_s=READ_TIMEOUT_S)) as db, snapshot(db):
            is_complete = list_columns(db, "usage") >= set(COLUMNS)
            yield cls(db) if is_complete else None

    def find_newest(self) -> tuple[int, str | None]:
        """Return the row id and the entry id of the newest call, or (0, None)."""
        row = self._db.execute("select id, entry_id from usage order by id desc limit 1").fetchone()
        return (0, None) if row is None else (row[0], row[1])

    def find_last_used(self) -> int:
        """Return the highest row id that a call ever had in this database."""
        row = self._db.execute("select seq from sqlite_sequence where name = 'usage'").fetchone()
        return 0 if row is None else int(row[0])

    def find_entry_id(self, usage_id: int) -> str | None:
        """Return the entry id of a call, or None if there is no such call."""
        row = self._db.execute("select entry_id from usage where id = ?", (usage_id,)).fetchone()
        return None if row is None else str(row[0])

    def find_last_until(self, entry_id: str) -> int:
        """Return the highest row id of calls that arrived no later than the call ``entry_id``."""
        found = self._db.execute(
            "select coalesce(max(id), 0) from usage where entry_id <= ?", (entry_id,)
        ).fetchone()
        return int(found[0])

    def count_between(self, after: int, until: int) -> int:
        """Return the number of calls with row ids above ``after``, up to ``until``."""
        found = self._db.execute(
            "select count(*) from usage where id > ? and id <= ?", (after, until)
        ).fetchone()
        return int(found[0])

    def read_after(self, usage_id: int, limit: int) -> list[FinishedCall]:
        """Return up to ``limit`` calls with row ids above ``usage_id``, in the order of their ids."""
        rows = self._db.execute(
            f"select {', '.join(COLUMNS)} from usage where id > ? order by id limit ?",  # noqa: S608 - our own names
            (usage_id, limit),
        )
        return [_make_call(dict(zip(COLUMNS, row, strict=True))) for row in rows]

    def read_bodies(self, usage_id: int) -> StoredBodies | None:
        """Return the bodies of a call, or None if they cannot be rebuilt."""
        try:
            return bodies.read_bodies(self._db, usage_id)
        except MissingPieceError:  # `taximeter verify` tells; the call goes on without them
            return None


def _make_call(row: dict[str, Any]) -> FinishedCall:
    tokens = TokenCounts(**{name: row.pop(name) for name in NAMES})
    return FinishedCall(**row, tokens=tokens)
