"""One call, read to be displayed: row, line items, neighbours, and bodies in chunks.

A body may be tens of megabytes and the client slow, so a body is read chunk by chunk and no
transaction is open between two of them. If retention removes the call meanwhile, the next chunk is
missing. It is never one of another call, since ids are not reused."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import batched
from pathlib import Path
from typing import Literal, Self

from metering.entry import UsageLogEntry
from store import database
from store.traces import annotations
from store.traces.annotations import Annotations
from store.traces.bodies import bodies
from store.traces.bodies.bodies import MissingPieceError
from store.traces.calls import cache_breaks, costs, predecessors, rate_limits
from store.traces.calls.cache_breaks import CacheBreak
from store.traces.calls.reader import make_entry
from store.traces.database import SCALARS
from store.traces.sessions import unnamed_sessions

BUSY_TIMEOUT_S = 1.0
CHUNK_BYTES = 256 * 1024
_PIECES_AT_ONCE = 64
_COLUMNS = (*SCALARS, "request_body_length", "response_body_length")
# Named, because without this index each would read the whole table; a database that the recorder
# has not opened since the index was invented has none, and its calls then have no neighbours.
_IN_SESSION = (
    "select id from usage indexed by usage_session"
    " where session_id = ? and agent_id is ? and (created_at, id)"
)
_PREVIOUS = f"{_IN_SESSION} < (?, ?) order by created_at desc, id desc limit 1"
_NEXT = f"{_IN_SESSION} > (?, ?) order by created_at, id limit 1"
_UNNAMED = (
    "select u.id from unnamed_calls as n cross join usage as u on u.id = n.usage_id"
    " where n.first_id = ? and u.agent_id is ? and (u.created_at, u.id)"
)
_PREVIOUS_UNNAMED = f"{_UNNAMED} < (?, ?) order by u.created_at desc, u.id desc limit 1"
_NEXT_UNNAMED = f"{_UNNAMED} > (?, ?) order by u.created_at, u.id limit 1"

type Side = Literal["request", "response"]

SIDES: tuple[Side, Side] = ("request", "response")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodySize:
    """The size of a stored body. ``is_text``: it is UTF-8 without NUL."""

    length: int
    is_text: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to be displayed. ``entry`` has its line items and no bodies.

    ``request`` and ``response`` are None for a body that was not kept. ``previous_id`` and ``next_id``
    are the neighbours by arrival in the same session and agent. ``session`` is also set if the client
    does not name it. ``predecessor_id`` is the call whose prompt this one continues."""

    id: int
    entry: UsageLogEntry
    request: BodySize | None
    response: BodySize | None
    previous_id: int | None
    next_id: int | None
    session: str | None = None
    predecessor_id: int | None = None
    cache_break: CacheBreak | None = None


class CallReader:
    """A reader of one organisation's traces. Several threads may use it, one at a time.

    Every method may raise sqlite3.Error."""

    def __init__(self, db: sqlite3.Connection) -> None:
        """Read by the connection ``db``, which the caller closes."""
        self._db = db
        there = {row[1] for row in self._db.execute("pragma table_info(usage)")}
        # A database that no newer recorder has opened yet lacks the newest ones.
        self._columns = tuple(name for name in _COLUMNS if name in there)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a trace database; the caller closes the reader. Raises sqlite3.Error if it cannot be read."""
        db = database.open_readonly(path, busy_timeout_s=BUSY_TIMEOUT_S, any_thread=True)
        try:
            return cls(db)
        except BaseException:
            db.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def find_call(self, usage_id: int) -> Call | None:
        """Return a call, or None when there is no such call."""
        with database.snapshot(self._db):
            values = self._db.execute(
                f"select {', '.join(self._columns)} from usage where id = ?",  # noqa: S608 - our names
                (usage_id,),
            ).fetchone()
            if values is None:
                return None
            row = dict(zip(self._columns, values, strict=True))
            items = costs.read_items(self._db, usage_id)
            place = row["session_id"], row["agent_id"], row["created_at"], usage_id
            session = unnamed_sessions.find_session(self._db, usage_id)
            return Call(
                id=usage_id,
                entry=replace(
                    make_entry(row),
                    cost_items=items,
                    rate_limits=rate_limits.read_limits(self._db, usage_id),
                ),
                request=self._measure("request", usage_id, row["request_body_length"]),
                response=self._measure("response", usage_id, row["response_body_length"]),
                previous_id=self._find_neighbour(_PREVIOUS, *place)
                or self._find_unnamed(_PREVIOUS_UNNAMED, session, *place),
                next_id=self._find_neighbour(_NEXT, *place)
                or self._find_unnamed(_NEXT_UNNAMED, session, *place),
                session=session,
                predecessor_id=predecessors.find_previous(self._db, usage_id),
                cache_break=cache_breaks.find_break(self._db, usage_id),
            )

    @property
    def connection(self) -> sqlite3.Connection:
        return self._db

    def snapshot(self) -> AbstractContextManager[None]:
        """Return a context manager within which all reads see the same state."""
        return database.snapshot(self._db)

    def count_body_bytes(self, usage_id: int) -> int | None:
        """Return the size in bytes of both bodies of a call together, or None if there is no such call."""
        found = self._db.execute(
            "select coalesce(request_body_length, 0) + coalesce(response_body_length, 0)"
            " from usage where id = ?",
            (usage_id,),
        ).fetchone()
        return None if found is None else int(found[0])

    def is_text(self, side: Side, usage_id: int) -> bool | None:
        """Return whether a body is text, or None if it was not kept."""
        question = {
            "request": "select segment_ids is not null from request_bodies where usage_id = ?",
            "response": "select typeof(body) = 'text' from response_bodies where usage_id = ?",
        }[side]
        row = self._db.execute(question, (usage_id,)).fetchone()
        return None if row is None else bool(row[0])

    def find_credential(self, usage_id: int) -> str | None:
        """Return the fingerprint of the credential of a call, or None if either does not exist."""
        row = self._db.execute(
            "select credential_hmac from usage where id = ?", (usage_id,)
        ).fetchone()
        return None if row is None else row[0]

    def read_annotations(self, usage_id: int) -> Annotations:
        """Return the labels and the note of a call."""
        return annotations.read_of_call(self._db, usage_id)

    def find_id(self, entry_id: str) -> int | None:
        """Return the row id of the call with this entry id, or None."""
        row = self._db.execute("select id from usage where entry_id = ?", (entry_id,)).fetchone()
        return None if row is None else int(row[0])

    def find_id_of_run(self, run_id: str) -> int | None:
        """Return the row id of the newest call of a run, or None."""
        row = self._db.execute("select max(id) from usage where run_id = ?", (run_id,)).fetchone()
        return None if row[0] is None else int(row[0])

    def read_body(self, usage_id: int, side: Side, max_bytes: int) -> bytes:
        """Return up to ``max_bytes`` from the beginning of a body. Raises MissingPieceError."""
        read = bytearray()
        for chunk in self.iter_body(usage_id, side):
            read += chunk
            if len(read) >= max_bytes:
                break
        return bytes(read[:max_bytes])

    def iter_body(self, usage_id: int, side: Side) -> Iterator[bytes]:
        """Yield the exact bytes of a body in chunks; nothing if it was not kept.

        Raises MissingPieceError."""
        if side == "response":
            return self._iter_value("response_bodies", "body", usage_id)
        return self._iter_request(usage_id)

    def _measure(self, side: Side, usage_id: int, length: int | None) -> BodySize | None:
        if length is None:
            return None
        is_text = self.is_text(side, usage_id)
        return None if is_text is None else BodySize(length=length, is_text=is_text)

    def _find_neighbour(self, sql: str, session_id: str | None, *place: str | int) -> int | None:
        if session_id is None:
            return None
        found = self._db.execute(sql, (session_id, *place)).fetchone()
        return None if found is None else int(found[0])

    def _find_unnamed(
        self, sql: str, session: str | None, session_id: str | None, *place: str | int | None
    ) -> int | None:
        """Return the neighbour that ``sql`` finds in a session that the client does not name, or None."""
        if session is None or session_id is not None:
            return None
        first_id = unnamed_sessions.parse_first_id(session)
        found = self._db.execute(sql, (first_id, *place)).fetchone()
        return None if found is None else int(found[0])

    def _iter_request(self, usage_id: int) -> Iterator[bytes]:
        row = self._db.execute(
            "select segment_ids from request_bodies where usage_id = ?", (usage_id,)
        ).fetchone()
        if row is None:
            return
        if row[0] is None:
            yield from self._iter_value("request_bodies", "whole", usage_id)
            return
        for ids in batched(bodies.read_piece_ids(self._db, row[0]), _PIECES_AT_ONCE):
            yield from self._iter_pieces(ids)

    def _iter_pieces(self, ids: Sequence[int]) -> Iterator[bytes]:
        """Yield the bytes of pieces: small ones joined, and large ones in chunks."""
        small: list[bytes] = []
        for piece_id, start in zip(
            ids, bodies.read_starts(self._db, ids, CHUNK_BYTES), strict=True
        ):
            if len(start) < CHUNK_BYTES:
                small.append(start)
                continue
            if small:
                yield b"".join(small)
                small.clear()
            yield from self._iter_value("pieces", "text", piece_id)
        if small:
            yield b"".join(small)

    def _iter_value(self, table: str, column: str, usage_id: int) -> Iterator[bytes]:
        """Yield the bytes of a stored value in chunks.

        An open blob handle is an open transaction, so each chunk has its own."""
        place, length = 0, 1
        while place < length:
            try:
                blob = self._db.blobopen(table, column, usage_id, readonly=True)
            except sqlite3.OperationalError as error:
                if place and "no such rowid" in str(error):
                    raise MissingPieceError("the body was removed meanwhile") from error
                if "no such rowid" in str(error):
                    return
                raise
            with blob:
                length = len(blob)
                blob.seek(place)
                chunk = blob.read(CHUNK_BYTES)
            if chunk:
                yield chunk
            place += CHUNK_BYTES
