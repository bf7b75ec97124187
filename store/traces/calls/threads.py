"""The calls of a message thread, and the whole requests of calls that sent only what is new.

The call before one that continues a thread is its predecessor, as the recorder has found it."""

import sqlite3
from collections.abc import Iterator
from typing import Literal, NamedTuple

import orjson

from store.database import list_columns
from store.traces.bodies.bodies import StoredBodies, read_bodies
from store.traces.calls.predecessors import find_previous
from wire.threads import Exchange, join_thread

MAX_CALLS = 1_000
MAX_BYTES = 24 << 20

_CHILD = (
    "select 1 from usage as p cross join usage as u on u.thread_previous_id = p.message_id"
    " where p.id = ? limit 1"
)
_CALL = (
    "select thread, usage_source = 'final', request_body_length, response_body_length from usage"
    " where id = ?"
)

type Gap = Literal["missing", "not kept", "cut", "too long"]


class Thread(NamedTuple):
    """The calls of a thread before a given one, from the call that sent everything on.

    ``ids`` is empty if one of them is missing, and ``gap`` says why: a call is not recorded, has no
    bodies, its response was cut off, or there are too many calls."""

    ids: tuple[int, ...] = ()
    gap: Gap | None = None


def find_thread(connection: sqlite3.Connection, usage_id: int) -> Thread:
    """Return the calls of a thread before a call. Empty for a request that sent everything."""
    if not has_threads(connection):
        return Thread()
    ids: list[int] = []
    total, here = 0, usage_id
    while True:
        step, is_whole, request_bytes, response_bytes = connection.execute(
            _CALL, (here,)
        ).fetchone()
        if ids and (request_bytes is None or response_bytes is None):
            return Thread((), "not kept")
        if ids and not is_whole:
            return Thread((), "cut")
        total += (request_bytes or 0) + (response_bytes or 0)
        if len(ids) > MAX_CALLS or total > MAX_BYTES:
            return Thread((), "too long")
        if step != "continue":
            return Thread(tuple(reversed(ids)))
        parent = find_parent(connection, here)
        if parent is None:
            return Thread((), "missing")
        here = parent
        ids.append(here)


def has_threads(connection: sqlite3.Connection) -> bool:
    """Return whether the database has the column for threads. Older ones lack it until a recorder opens
    them."""
    return "thread_previous_id" in list_columns(connection, "usage")


def is_continued(connection: sqlite3.Connection, usage_id: int) -> bool:
    """Return whether another call continues the message thread from this one."""
    return connection.execute(_CHILD, (usage_id,)).fetchone() is not None


def find_parent(connection: sqlite3.Connection, usage_id: int) -> int | None:
    """Return the call from which this one continues the message thread, or None."""
    step = connection.execute("select thread from usage where id = ?", (usage_id,)).fetchone()
    return find_previous(connection, usage_id) if step == ("continue",) else None


def iter_before(connection: sqlite3.Connection, usage_id: int) -> Iterator[int]:
    """Yield the recorded calls of a thread before ``usage_id``, newest first, up to ``MAX_CALLS``."""
    here = usage_id
    for _ in range(MAX_CALLS):
        parent = find_parent(connection, here)
        if parent is None:
            return
        here = parent
        yield here


class WholeRequest(NamedTuple):
    """The request of a call with all messages that the model was given.

    ``sent`` is the number of messages that the call sent itself, None if it sent all. ``gap`` says why
    earlier messages are missing."""

    body: bytes
    sent: int | None = None
    gap: Gap | None = None


def read_whole_request(connection: sqlite3.Connection, usage_id: int) -> WholeRequest | None:
    """Return the request of a call with the messages of its thread before it, or None if it was not kept.

    A request that sent everything is returned as it came. Raises sqlite3.Error, MissingPieceError."""
    body = read_bodies(connection, usage_id).request
    if body is None:
        return None
    thread = find_thread(connection, usage_id)
    if thread.gap is not None or not thread.ids:
        return WholeRequest(body, gap=thread.gap)
    before = [_make_exchange(read_bodies(connection, each)) for each in thread.ids]
    whole = join_thread(before, body)
    if whole is None:
        return WholeRequest(body, gap="not kept")
    return WholeRequest(orjson.dumps(whole.document), whole.sent)


def _make_exchange(bodies: StoredBodies) -> Exchange:
    return Exchange(bodies.request or b"", bodies.response or b"")
