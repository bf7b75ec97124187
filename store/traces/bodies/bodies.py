"""Storing request and response bodies in a trace database, and reading them.

Writing has two halves. ``prepare_request`` and ``prepare_response`` hash and cut; they need no
database and take most of the time, so they run before the write lock is taken. ``PieceStore`` then
turns segments into ids inside the transaction.

``PieceStore`` remembers ids, and this is the one dangerous cache here: retention in another process
may have deleted what it remembers, and a body would then refer to nothing. So each transaction
starts with ``start_transaction``, which under the write lock reads ``PRAGMA data_version`` and
forgets all ids when another connection has committed since. A rollback forgets them too, because
the ids of that transaction were never stored.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import batched
from typing import NamedTuple

import orjson

from store.database import bind_list
from store.traces.bodies import pieces
from store.traces.bodies.pieces import Beginning, Segment
from wire.conversation_memory import (
    MIN_BODY_BYTES,
    ConversationMemory,
    Findings,
)

HASH_STEP = 8 * 1024
DIGESTS_AT_ONCE = 128
MAX_CACHED_IDS = 20_000  # some 4 MB; one more than that and the cache starts again


class MissingPieceError(Exception):
    """A stored request refers to a segment or piece that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBodies:
    """The exact bytes of both bodies of a call. A body is None if it was not stored."""

    request: bytes | None
    response: bytes | None


class PreparedRequest(NamedTuple):
    sha256: bytes
    body: bytes
    segments: Sequence[Segment] | None  # None: not text, to be stored whole


@dataclass(slots=True, kw_only=True)  # not frozen: made for each call, three times as fast
class PreparedResponse:
    sha256: bytes
    body: str | bytes


class _Known(NamedTuple):
    """The segments of a body, its SHA-256, and the states of the hash after every ``HASH_STEP`` bytes.

    The first state is that of no bytes."""

    segments: Sequence[Segment]
    sha256: bytes
    states: "Sequence[hashlib._Hash]"


class RequestPreparer:
    """Hashing and cutting of requests, of which only the new part of each conversation is processed.

    The hash is always the SHA-256 of the whole body, whatever the cuts are, so ``verify`` can check it:
    hashing continues from the state after those bytes that were compared with the last request and are
    the same."""

    def __init__(self, memory: ConversationMemory | None = None) -> None:
        """Prepare requests with a memory of conversations, which other preparers may share."""
        self._findings = Findings[_Known](memory)

    def prepare(self, body: bytes, *labels: object) -> PreparedRequest:
        """Cut and hash a request body. ``labels`` identify its conversation as far as the caller can."""
        if len(body) < MIN_BODY_BYTES:
            return prepare_request(body)
        key = self._findings.guess_key(body, *labels)
        kept = self._findings.find(key)
        if kept is None:
            known = _read(body)
        else:
            shared = self._findings.shared_length(kept, body)
            beginning = pieces.begin_alike(kept.found.segments, shared)
            known = _read(body, beginning, kept.found.states[: shared // HASH_STEP + 1])
        if known is None:
            return prepare_request(body)
        self._findings.keep(key, body, known)
        return PreparedRequest(known.sha256, body, known.segments)


def prepare_request(body: bytes) -> PreparedRequest:
    segments = None if _as_text(body) is None else pieces.split(body)
    return PreparedRequest(hashlib.sha256(body).digest(), body, segments)


def _read(
    body: bytes,
    beginning: Beginning = Beginning(),  # noqa: B008 - immutable
    known_states: "Sequence[hashlib._Hash]" = (),
) -> _Known | None:
    """Cut and hash a body, or return None if it is not text. ``known_states`` are states of ``beginning``."""
    done = beginning.segments[-1].end if beginning.segments else 0
    # What is before is text, and ends where a character does.
    if _as_text(body[done:]) is None:
        return None
    states = [*known_states] or [hashlib.sha256()]
    state = states[-1].copy()
    for start in range((len(states) - 1) * HASH_STEP, len(body), HASH_STEP):
        state.update(body[start : start + HASH_STEP])
        if start + HASH_STEP <= len(body):
            states.append(state.copy())
    return _Known(pieces.split(body, beginning), state.digest(), states)


def prepare_response(body: bytes) -> PreparedResponse:
    text = _as_text(body)
    return PreparedResponse(
        sha256=hashlib.sha256(body).digest(),
        body=body if text is None else text,
    )


def is_text(body: bytes) -> bool:
    """Return whether a body can be stored as TEXT: strict UTF-8 without NUL.

    Many readers of TEXT stop at NUL."""
    return _as_text(body) is not None


def _as_text(body: bytes) -> str | None:
    if body.find(b"\0") >= 0:  # takes a ninth of the time of `in`
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


class PieceStore:
    """The ids of segments and pieces. Each is stored when it first occurs."""

    def __init__(self, connection: sqlite3.Connection, max_cached_ids: int = MAX_CACHED_IDS):
        self._connection = connection
        self._max_cached_ids = max_cached_ids
        self._segment_ids: dict[bytes, int] = {}
        self._piece_ids: dict[bytes, int] = {}
        self._data_version: int | None = None

    def start_transaction(self) -> None:
        """Forget all ids if another connection has committed since the last transaction.

        Must be the first call in each write transaction, while it holds the write lock."""
        (data_version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if data_version != self._data_version or len(self) > self._max_cached_ids:
            self.forget()
        self._data_version = data_version

    def forget(self) -> None:
        """Forget all ids: necessary after a rollback, and after this connection deleted pieces."""
        self._segment_ids.clear()
        self._piece_ids.clear()

    def __len__(self) -> int:
        """Return how many ids are remembered."""
        return len(self._segment_ids) + len(self._piece_ids)

    def store(self, requests: Sequence[tuple[int, PreparedRequest]]) -> None:
        """Store requests, given with the row ids of their calls.

        New segments and pieces get ascending ids in this order."""
        self._add_segments(requests)
        self._connection.executemany(
            "insert into request_bodies (usage_id, sha256, segment_ids, whole) values (?, ?, ?, ?)",
            [(usage_id, *self._make_row(each)) for usage_id, each in requests],
        )

    def _make_row(self, prepared: PreparedRequest) -> tuple[bytes, str | None, bytes | None]:
        sha256, body, segments = prepared
        if segments is None:
            return sha256, None, body
        ids = bind_list([self._segment_ids[each.digest] for each in segments])
        return sha256, ids, None

    def _add_segments(self, requests: Sequence[tuple[int, PreparedRequest]]) -> None:
        """Store the segments that are not stored yet, and remember the ids of all."""
        unknown = {
            segment.digest: (segment, each.body)
            for _, each in requests
            for segment in each.segments or ()
            if segment.digest not in self._segment_ids
        }
        self._segment_ids |= self._find("segments", unknown)
        new = [each for digest, each in unknown.items() if digest not in self._segment_ids]
        self._add_pieces(new)
        ids = self._give_ids("segments", (segment.digest for segment, _ in new))
        self._connection.executemany(
            "insert into segments (id, hash, piece_ids) values (?, ?, ?)",
            [
                (
                    ids[segment.digest],
                    segment.digest,
                    orjson.dumps(
                        [self._piece_ids[each] for each in segment.piece_digests]
                    ).decode(),
                )
                for segment, _ in new
            ],
        )
        self._segment_ids |= ids

    def _add_pieces(self, segments: Iterable[tuple[Segment, bytes]]) -> None:
        """Store those pieces of new segments that are not stored yet, and remember their ids."""
        unknown = {
            digest: body[start:end]
            for segment, body in segments
            for digest, (start, end) in zip(segment.piece_digests, segment.spans, strict=True)
            if digest not in self._piece_ids
        }
        ids = self._give_ids("pieces", unknown)
        added = self._connection.executemany(
            "insert into pieces (id, hash, text) values (?, ?, ?) on conflict (hash) do nothing",
            ((ids[digest], digest, piece.decode()) for digest, piece in unknown.items()),
        )
        # Of those that are not remembered nearly always all are new.
        all_are_new = added.rowcount == len(unknown)
        self._piece_ids |= ids if all_are_new else self._find("pieces", unknown)

    def _give_ids(self, table: str, digests: Iterable[bytes]) -> dict[bytes, int]:
        """Return an id for each digest of a new row: greater than all ids that the table ever had."""
        (last,) = self._connection.execute(
            f"select max(coalesce((select max(id) from {table}), 0),"  # noqa: S608 - our own names
            " coalesce((select seq from sqlite_sequence where name = ?), 0))",
            (table,),
        ).fetchone()
        return {digest: number for number, digest in enumerate(digests, last + 1)}

    def _find(self, table: str, digests: Iterable[bytes]) -> dict[bytes, int]:
        """Return the ids of those digests that are stored."""
        found: dict[bytes, int] = {}
        for some in map(_pad, batched(digests, DIGESTS_AT_ONCE)):
            marks = ", ".join("?" * len(some))
            sql = f"select hash, id from {table} where hash in ({marks})"  # noqa: S608 - our own names
            found |= self._connection.execute(sql, some)
        return found


def _pad(digests: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the digests, padded by the last one to a power of two.

    The connection keeps a prepared statement for each length, so there must be few lengths."""
    size = 1 << (len(digests) - 1).bit_length()
    return digests + digests[-1:] * (size - len(digests))


def store_responses(
    connection: sqlite3.Connection, responses: Iterable[tuple[int, PreparedResponse]]
) -> None:
    """Store responses, given with the row ids of their calls."""
    connection.executemany(
        "insert into response_bodies (usage_id, sha256, body) values (?, ?, ?)",
        [(usage_id, each.sha256, each.body) for usage_id, each in responses],
    )


def read_bodies(connection: sqlite3.Connection, usage_id: int) -> StoredBodies:
    """Return the exact bodies of a call.

    Pieces are joined here, by id and as bytes, so that the result does not depend on an order that
    SQLite might choose. The caller has begun a transaction. Raises MissingPieceError."""
    return StoredBodies(
        request=read_request(connection, usage_id), response=_read_response(connection, usage_id)
    )


def read_piece_ids(connection: sqlite3.Connection, segment_ids: str) -> list[int]:
    """Return the ids of all pieces of a request, in order. Raises MissingPieceError."""
    lists = _by_id(connection, "select id, piece_ids from segments", segment_ids)
    return [
        piece_id
        for segment_id in orjson.loads(segment_ids)
        for piece_id in orjson.loads(_get(lists, segment_id, "segment"))
    ]


def read_pieces(connection: sqlite3.Connection, piece_ids: Sequence[int]) -> bytes:
    """Return the joined bytes of the pieces. Raises MissingPieceError."""
    ids = bind_list(piece_ids)
    data = _by_id(connection, "select id, cast(text as blob) from pieces", ids)
    return b"".join(_get(data, piece_id, "piece") for piece_id in piece_ids)


def read_starts(
    connection: sqlite3.Connection, piece_ids: Sequence[int], max_bytes: int
) -> list[bytes]:
    """Return the first ``max_bytes`` of each piece. Raises MissingPieceError."""
    ids = bind_list(piece_ids)
    data = dict(
        connection.execute(
            "select id, substr(cast(text as blob), 1, ?) from pieces"
            " where id in (select value from json_each(?))",
            (max_bytes, ids),
        )
    )
    return [_get(data, piece_id, "piece") for piece_id in piece_ids]


def read_request(connection: sqlite3.Connection, usage_id: int) -> bytes | None:
    """Return the exact request body of a call, or None if it was not stored.

    The caller has begun a transaction. Raises MissingPieceError."""
    row = connection.execute(
        "select segment_ids, whole from request_bodies where usage_id = ?", (usage_id,)
    ).fetchone()
    if row is None:
        return None
    segment_ids, whole = row
    if segment_ids is None:
        return bytes(whole)
    return read_pieces(connection, read_piece_ids(connection, segment_ids))


def _read_response(connection: sqlite3.Connection, usage_id: int) -> bytes | None:
    row = connection.execute(
        "select cast(body as blob) from response_bodies where usage_id = ?", (usage_id,)
    ).fetchone()
    return None if row is None else bytes(row[0])


def _by_id(connection: sqlite3.Connection, select: str, ids: str) -> dict[int, bytes]:
    wanted = " where id in (select value from json_each(?))"
    return dict(connection.execute(select + wanted, (ids,)))


def _get(found: dict[int, bytes], key: int, kind: str) -> bytes:
    try:
        return found[key]
    except KeyError:
        raise MissingPieceError(f"{kind} {key} is missing") from None
